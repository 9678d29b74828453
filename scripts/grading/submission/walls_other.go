// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package submission

// systemCalls returns a filter only on Linux.
func systemCalls() []byte { return nil }
