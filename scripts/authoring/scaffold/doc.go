// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package scaffold writes a new operator's project, in the layout of kubebuilder v4, from templates of ours. It adds
// nothing to a project that is there: kubebuilder itself does that, at the marks that the templates have.
package scaffold
