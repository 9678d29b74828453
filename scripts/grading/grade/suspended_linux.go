// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is how long the machine was suspended since it booted, to a few microseconds: clock_gettime(2) counts
// that time in CLOCK_BOOTTIME, and not in CLOCK_MONOTONIC, which is the clock of package time.
func suspended() time.Duration {
	var monotonic, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0 // the kernel lacks the clock
	}
	return time.Duration(boot.Nano() - monotonic.Nano())
}
