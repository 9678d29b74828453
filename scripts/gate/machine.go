// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// workSize is how many bytes the fixed piece of work hashes.
const workSize = 64 << 20

// machine describes the machine: the same gate takes twice as long on one that is half as fast.
func machine(folder string) string {
	facts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if kilobytes, ok := memory(); ok {
		facts = append(facts, fmt.Sprintf("%.0f GB of memory", float64(kilobytes)/1e6))
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(folder, &disk); err == nil {
		facts = append(facts, fmt.Sprintf("%.0f GB free on the disk", float64(disk.Bavail)*float64(disk.Bsize)/1e9))
	}
	began := time.Now()
	sha256.Sum256(make([]byte, workSize))
	facts = append(facts, fmt.Sprintf("SHA-256 of 64 MB in %d ms", time.Since(began).Milliseconds()))
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		facts = append(facts, "load "+strings.Join(strings.Fields(string(load))[:3], " "))
	}
	return strings.Join(facts, ", ")
}

// memory is the machine's memory in kilobytes, as proc_meminfo(5) has it. It is known on Linux only.
func memory() (kilobytes int, ok bool) {
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(content)) {
		if n, err := fmt.Sscanf(line, "MemTotal: %d kB", &kilobytes); n == 1 && err == nil {
			return kilobytes, true
		}
	}
	return 0, false
}
