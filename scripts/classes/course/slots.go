// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// Maximum number of bytes of memory that one run needs, including its control plane, its operator and the compiler:
// docs/benchmarks.md.
const (
	// MemoryOfProcess is for a lab whose operator is a process. MemoryOfNode is for a lab whose cluster runs Pods.
	MemoryOfProcess = 900 << 20
	MemoryOfNode    = 1600 << 20
)

// Slots returns how many submissions to grade at a time on a machine with so many processors and so many free bytes of
// memory, if each run needs that many bytes. The result is at least one. A run waits for half of its time, so three
// runs keep two processors busy. A sixth of the memory stays free.
func Slots(processors int, free, each int64) int {
	byProcessors := (3*processors + 1) / 2
	if each <= 0 {
		return max(1, byProcessors)
	}
	return max(1, min(byProcessors, int((free-free/6)/each)))
}

// FreeMemory returns how many bytes of memory are available to programs on this machine. It returns an error on a
// system that does not report that.
func FreeMemory() (int64, error) {
	system, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf(
			"reading the amount of free memory: %w; set --slots to the number of submissions to grade at a time", err,
		)
	}
	memory, err := system.Meminfo()
	if err != nil || memory.MemAvailableBytes == nil {
		return 0, fmt.Errorf(
			"reading the amount of free memory: %w; set --slots to the number of submissions to grade at a time", err,
		)
	}
	return int64(*memory.MemAvailableBytes), nil //nolint:gosec // no machine has so much
}
