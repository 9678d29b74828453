// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package command runs other programs (go, git, controller-gen) to their end and returns what they printed. It does not
// run anything that stays, and no student's code.
package command
