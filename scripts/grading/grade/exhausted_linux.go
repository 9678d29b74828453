// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import "golang.org/x/sys/unix"

// inotifyExhausted reports whether this user can make fewer instances of inotify than an operator needs.
func inotifyExhausted() bool {
	return runsOut(inotifyNeeded, unix.EMFILE, func() (func(), error) {
		descriptor, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		return func() { unix.Close(descriptor) }, err
	})
}
