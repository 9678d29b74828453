// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package templates is a test: it reads the files in docs/templates that courses copy, and runs their commands as
// GitHub and Classroom 50 would. It holds no code for others.
package templates
