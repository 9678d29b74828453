// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package kind

// inotifyFree returns -1, because Docker's virtual machine has limits of its own.
func inotifyFree(int) int { return -1 }
