// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// inotifyExhausted reports whether this user can make fewer instances of inotify than an operator needs.
func inotifyExhausted() bool {
	return runsOut(inotifyNeeded, unix.EMFILE, func() (func(), error) {
		descriptor, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		return func() { unix.Close(descriptor) }, err
	})
}

// outOfMemoryKills is how many processes the kernel has killed since boot because there was no memory left. It is -1
// if the kernel does not report it. (Documentation/admin-guide/cgroup-v2.rst describes the same counter of a control
// group, in memory.events.)
func outOfMemoryKills() int {
	content, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(content)) {
		var kills int
		if n, err := fmt.Sscanf(line, "oom_kill %d", &kills); n == 1 && err == nil {
			return kills
		}
	}
	return -1
}
