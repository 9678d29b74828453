// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lva.io/operators/scripts/checks/protocol"
)

// usage is what the operator has used of the processors since it was started. A reconciler that is called again and again and
// finds all in its cache sends no request: this is where it shows.
func (o *operator) usage() protocol.Usage {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if p, ok := o.process.(interface{ PID() int }); ok {
		return usageOf(p.PID())
	}
	return protocol.Usage{}
}

// usageOf sums up what Linux's scheduler says of the threads of a process and of those below it: the nanoseconds for which each ran
// and for which it waited to, and how often it was run (Documentation/scheduler/sched-stats.rst). One that ends meanwhile is left out.
func usageOf(pid int) (usage protocol.Usage) {
	for _, pid := range withDescendants(pid) {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is right
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			var ran, waited time.Duration
			var runs int
			if n, _ := fmt.Sscan(string(content), &ran, &waited, &runs); n == 3 {
				usage.Known = true
				usage.CPU += ran.Seconds()
				usage.Runs += runs
			}
		}
	}
	return usage
}

// withDescendants are a process and those below it: a contained program runs below a supervisor.
func withDescendants(pid int) []int {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold anything. Behind it: the state, and the parent. (proc_pid_stat(5))
		var state string
		var child, parent int
		behind := content[bytes.LastIndexByte(content, ')')+1:]
		if _, err := fmt.Sscan(string(content), &child); err != nil {
			continue
		}
		if _, err := fmt.Sscan(string(behind), &state, &parent); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
