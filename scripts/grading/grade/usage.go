// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lva.io/operators/scripts/grading/protocol"
)

// usage is the processor time that the operator has used since it was started. A reconciler that is called over and
// over and finds everything in its cache sends no requests, but it uses processor time.
func (o *operator) usage() protocol.Usage {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if p, ok := o.instance.(interface{ PID() int }); ok {
		return usageOf(p.PID())
	}
	return protocol.Usage{}
}

// usageOf sums up what Linux's scheduler records about the threads of a process and of its descendants: the
// nanoseconds for which each ran and for which it waited to run, and how often it was run
// (Documentation/scheduler/sched-stats.rst). A thread that ends meanwhile is left out. On a kernel that does not list
// the children of a process (CONFIG_PROC_CHILDREN), the usage is unknown, because a contained program runs as a child
// of a supervisor.
func usageOf(pid int) (usage protocol.Usage) {
	processes := []string{strconv.Itoa(pid)}
	for len(processes) > 0 {
		threads, _ := filepath.Glob("/proc/" + processes[0] + "/task/*") // the pattern is right
		processes = processes[1:]
		for _, thread := range threads {
			children, err := os.ReadFile(filepath.Join(thread, "children"))
			if errors.Is(err, fs.ErrNotExist) && exists(thread) {
				return protocol.Usage{}
			}
			processes = append(processes, strings.Fields(string(children))...)
			addThread(&usage, thread)
		}
	}
	return usage
}

// ownUsage is the usage of this process alone.
func ownUsage() (usage protocol.Usage) {
	threads, _ := filepath.Glob("/proc/self/task/*") // the pattern is right
	for _, thread := range threads {
		addThread(&usage, thread)
	}
	return usage
}

// addThread adds the usage of the thread in this /proc folder.
func addThread(usage *protocol.Usage, thread string) {
	content, err := os.ReadFile(filepath.Join(thread, "schedstat"))
	if err != nil {
		return
	}
	var ran, waited time.Duration
	var runs int
	if n, _ := fmt.Sscan(string(content), &ran, &waited, &runs); n == 3 {
		usage.Known = true
		usage.CPU += ran.Seconds()
		usage.Runs += runs
		usage.Waited += waited.Seconds()
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
