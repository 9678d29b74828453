// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"os"

	"golang.org/x/sys/unix"
)

// inotifyFree returns how many inotify instances root can still have, up to the number wanted. It creates them, and
// closes them again. Nothing in /proc shows the number, because an inherited instance appears in several processes. The
// result is negative for users other than root.
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
