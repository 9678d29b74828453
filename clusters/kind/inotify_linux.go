// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"os"

	"golang.org/x/sys/unix"
)

// inotifyFree is how many inotify instances root can still have, up to those that are wanted: it takes them, and gives
// them back. Nothing in /proc says it, since one that was inherited shows up in several processes. It is negative for
// others than root.
func inotifyFree(wanted int) int {
	if os.Geteuid() != 0 {
		return -1
	}
	var instances []int
	for len(instances) < wanted {
		instance, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			break
		}
		instances = append(instances, instance)
	}
	for _, instance := range instances {
		_ = unix.Close(instance)
	}
	return len(instances)
}
