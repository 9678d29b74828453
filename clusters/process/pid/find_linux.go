// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pid

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// All are the numbers of all processes that we see.
func All() (numbers []int) {
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
type Child struct{ Number, Parent int }

// Below are the processes below one. Some are dead already. One whose first thread has ended looks so, and may have
// other threads and children.
func Below(ancestor int) (below []Child) {
	children := map[int][]Child{}
	for _, number := range All() {
		if parent, ok := parentOf(number); ok {
			children[parent] = append(children[parent], Child{number, parent})
		}
	}
	below = append(below, children[ancestor]...)
	for i := 0; i < len(below); i++ {
		below = append(below, children[below[i].Number]...)
	}
	return below
}

// Signal signals the process, and reports whether it was still there. One that was left by its parent in the meantime
// is not found, and the caller has to look again.
func (c Child) Signal(signal syscall.Signal) bool {
	h, there := c.open()
	defer h.Close()
	return there && h.Signal(signal)
}

// SignalWithGroup signals the process, and then the process group that it leads, if it leads one: no process of the group
// can fork meanwhile. A group that it has only joined is not signalled, since others may be in it: the ancestor's group is
// open to all processes of its session. It reports whether the process was still there.
func (c Child) SignalWithGroup(signal syscall.Signal) bool {
	h, there := c.open()
	defer h.Close()
	there = there && h.Signal(signal)
	if there {
		h.SignalGroup(signal)
	}
	return there
}

// open is a handle of the process; false: it is gone, or was left by its parent. The handle must be closed in both cases.
func (c Child) open() (h Handle, there bool) {
	if h, there = Open(c.Number); !there {
		return h, false
	}
	parent, ok := parentOf(c.Number)
	return h, ok && parent == c.Parent
}

// parentOf reads /proc/PID/stat (proc(5)). The program's name, in parentheses, may hold anything.
func parentOf(number int) (parent int, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(number) + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
