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
	h, there := Open(c.Number)
	if !there {
		return false
	}
	defer h.Close()
	parent, ok := parentOf(c.Number)
	return ok && parent == c.Parent && h.Signal(signal)
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
