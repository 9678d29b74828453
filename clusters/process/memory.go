// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"fmt"
	"os"
	"strings"
)

// OutOfMemoryKills returns how many processes the kernel has killed since boot because there was no memory left. It
// returns -1 if the kernel does not report it, as on systems other than Linux.
// (Documentation/admin-guide/cgroup-v2.rst describes the same counter of a control group, in memory.events.)
func OutOfMemoryKills() int {
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
