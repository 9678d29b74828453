// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package submission

// systemCalls is for Linux.
func systemCalls() []byte { return nil }
