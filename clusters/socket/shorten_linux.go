// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package socket

import (
	"fmt"
	"os"
	"path/filepath"
)

// shorten names a socket by a descriptor of its folder. The name is valid until release is called.
func shorten(path string) (name string, release func(), err error) {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(path)), func() { folder.Close() }, nil
}
