// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package shared makes stages at clusters that are there, and that others use, too: one run at a time, under an account
// that can give no right away which no lab needs, and with all that a run has made removed after it.
package shared
