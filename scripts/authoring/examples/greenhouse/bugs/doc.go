// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package bugs has the incorrect code of lecture 10, in which readers look for mistakes. The mistakes are intentional,
// so do not copy from it. Its tests show the effect of each mistake. The correct controller is in package greenhouse
// (board.go).
package bugs
