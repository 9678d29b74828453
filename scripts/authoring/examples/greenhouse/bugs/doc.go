// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package bugs is the wrong code of lecture 10, in which readers look for mistakes. It is wrong on purpose: copy
// nothing from it. Its tests show what each mistake does. The right controller is in package greenhouse (board.go).
package bugs
