// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package socket

import "fmt"

// nameLimit is how many bytes the name of a Unix socket may have on the systems that allow the least.
const nameLimit = 103

// shorten refuses what is too long.
func shorten(path string) (name string, release func(), err error) {
	if len(path) > nameLimit {
		return "", nil, fmt.Errorf("the path is longer than %d bytes, and this system allows no more: "+
			"move to a folder that lies less deep, or set TMPDIR to one", nameLimit)
	}
	return path, func() {}, nil
}
