// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package command runs other programs (go, git, controller-gen) to their end and returns what they printed. It runs
// neither background processes nor students' code.
package command
