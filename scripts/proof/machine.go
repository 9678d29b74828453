// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine describes the machine that a part ran on: its cores, its memory and its processor. The last two are known on Linux
// only, from proc_meminfo(5) and /proc/cpuinfo.
func machine() string {
	facts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	var kilobytes float64
	for line := range linesOf("/proc/meminfo") {
		if n, err := fmt.Sscanf(line, "MemTotal: %f kB", &kilobytes); n == 1 && err == nil {
			facts = append(facts, fmt.Sprintf("%.0f GB", kilobytes/1e6))
			break
		}
	}
	for line := range linesOf("/proc/cpuinfo") {
		if key, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			facts = append(facts, strings.Join(strings.Fields(model), " "))
			break
		}
	}
	return strings.Join(facts, ", ")
}

func linesOf(name string) func(func(string) bool) {
	content, _ := os.ReadFile(name) // elsewhere than on Linux there is none
	return strings.Lines(string(content))
}
