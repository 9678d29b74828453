// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package socket

import "fmt"

// nameLimit is the maximum length of a Unix socket's name, in bytes, on the systems with the lowest limit.
const nameLimit = 103

// shorten refuses a name that is too long.
func shorten(path string) (name string, release func(), err error) {
	if len(path) > nameLimit {
		return "", nil, fmt.Errorf("the path is longer than %d bytes, and this system allows no more: "+
			"move to a folder that lies less deep, or set TMPDIR to one", nameLimit)
	}
	return path, func() {}, nil
}
