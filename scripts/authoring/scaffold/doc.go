// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package scaffold creates the project of a new operator in the layout of kubebuilder v4, from its own templates. It
// does not extend existing projects. You can do that with kubebuilder itself, which inserts code at the marks in the
// templates.
package scaffold
