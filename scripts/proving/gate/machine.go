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

	"github.com/prometheus/procfs"
)

// workSize is how many bytes the fixed piece of work hashes.
const workSize = 64 << 20

// machine describes the machine, because the same gate takes twice as long on a machine that is half as fast.
func machine(folder string) string {
	facts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if memory, err := memory(); err == nil {
		facts = append(facts, fmt.Sprintf("%.0f GB of memory", float64(*memory.MemTotalBytes)/1e9))
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

// memory is known on Linux only.
func memory() (procfs.Meminfo, error) {
	system, err := procfs.NewDefaultFS()
	if err != nil {
		return procfs.Meminfo{}, err
	}
	return system.Meminfo()
}
