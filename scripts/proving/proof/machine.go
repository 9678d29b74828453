// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"
)

// machine describes the machine that a part ran on: its cores, its memory and its processor. The last two are known on
// Linux only, from proc_meminfo(5) and /proc/cpuinfo.
func machine() string {
	facts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if system, err := procfs.NewDefaultFS(); err == nil {
		if memory, err := system.Meminfo(); err == nil {
			facts = append(facts, fmt.Sprintf("%.0f GB", float64(*memory.MemTotalBytes)/1e9))
		}
	}
	processors, _ := os.ReadFile("/proc/cpuinfo") // only Linux has this file
	for line := range strings.Lines(string(processors)) {
		if key, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			facts = append(facts, strings.Join(strings.Fields(model), " "))
			break
		}
	}
	return strings.Join(facts, ", ")
}
