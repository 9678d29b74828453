// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package templates tests the files in docs/templates, which courses copy: it runs their commands as GitHub and
// Classroom 50 would. It has tests only, and exports nothing.
package templates
