// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pid

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// All returns the numbers of all processes that we see. If /proc is that of another PID namespace, its numbers mean
// other processes, and we see none.
func All() (numbers []int) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		if number, err := strconv.Atoi(entry.Name()); err == nil {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// Child is a process and its parent, as they were when we looked.
type Child struct {
	Number, Parent int
	began          uint64 // in clock ticks after the machine's start: another process that has the number began later
}

// Below returns the processes below an ancestor, which must not end meanwhile. Some of them are dead already. A process
// whose first thread has ended looks dead, but may have other threads and children. Below does not find the children of
// a process that ends or loses its parent meanwhile, so the caller has to look again.
func Below(ancestor int) []Child { return below(ancestor, All(), look) }

func below(ancestor int, numbers []int, look func(number int) (Child, bool)) (below []Child) {
	children := map[int][]Child{}
	for _, number := range numbers {
		if process, ok := look(number); ok {
			children[process.Parent] = append(children[process.Parent], process)
		}
	}
	below = append(below, children[ancestor]...)
	for i := 0; i < len(below); i++ {
		parent := below[i]
		if len(children[parent.Number]) == 0 {
			continue
		}
		// If the parent had ended before we saw the children, they could be those of another process that has its number.
		if reread, ok := look(parent.Number); ok && reread == parent {
			below = append(below, children[parent.Number]...)
		}
	}
	return below
}

// Signal signals the process, and reports whether it still existed. If its parent has ended in the meantime, it
// is not found, and the caller has to look again.
func (c Child) Signal(signal syscall.Signal) bool {
	h, ok := c.open()
	defer h.Close()
	return ok && h.Signal(signal)
}

// SignalWithGroup signals the process, and then the process group that it leads, if it leads one: no process of the
// group can fork meanwhile. A group that it has only joined is not signalled, because other processes may be in it: the
// ancestor's group is open to all processes of its session. It reports whether the process still existed.
func (c Child) SignalWithGroup(signal syscall.Signal) bool {
	h, ok := c.open()
	defer h.Close()
	ok = ok && h.Signal(signal)
	if ok {
		h.SignalGroup(signal)
	}
	return ok
}

// open returns a handle of the process, or false if the process has ended or lost its parent. The handle must be closed
// in both cases.
func (c Child) open() (h Handle, ok bool) {
	if h, ok = Open(c.Number); !ok {
		return h, false
	}
	now, ok := look(c.Number)
	return h, ok && now == c
}

// look reads /proc/PID/stat (proc(5)). The program's name, in parentheses, may contain anything.
func look(number int) (process Child, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(number) + "/stat")
	if err != nil {
		return Child{}, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	// The fields after the name: the first of them is number 3 of the manual's.
	const parent, began = 4 - 3, 22 - 3
	if len(fields) <= began {
		return Child{}, false
	}
	process.Number = number
	if process.Parent, err = strconv.Atoi(string(fields[parent])); err != nil {
		return Child{}, false
	}
	process.began, err = strconv.ParseUint(string(fields[began]), 10, 64)
	return process, err == nil
}
