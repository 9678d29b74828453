// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkSlotMemory grades the solution of lab 2 and repeatedly adds up the memory of the control plane and the
// operator. It uses proportional set sizes, so that shared code counts once. The result is the largest sum.
func BenchmarkSlotMemory(b *testing.B) {
	var peaks samples
	for b.Loop() {
		peaks = append(peaks, peakWhileGrading(b))
	}
	peaks.report(b, "MB")
}

func peakWhileGrading(b *testing.B) float64 {
	b.Helper()
	command := exec.CommandContext(b.Context(), filepath.Join(root, ".cache", "bin", "lab"), "grade", "2", "--solution")
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	peak := 0.0
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				b.Fatal(err)
			}
			return peak
		case <-ticker.C:
			peak = max(peak, slotMemory(command.Process.Pid))
		}
	}
}

// slotMemory returns the memory of the control plane and the operator, in megabytes. It adds up the children of the lab
// command.
func slotMemory(parent int) float64 {
	sum := 0.0
	for _, child := range childrenOf(parent) {
		program, err := os.Readlink(filepath.Join("/proc", child, "exe"))
		if name := filepath.Base(program); err != nil || name != "controlplane" && name != "operator" {
			continue
		}
		sum += proportionalMegabytes(child)
	}
	return sum
}

// childrenOf finds the children of a process by looking at all processes.
func childrenOf(parent int) []string {
	var children []string
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// The format is "pid (name) state ppid …". A name may have any characters, but the last parenthesis ends it.
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			children = append(children, filepath.Base(filepath.Dir(file)))
		}
	}
	return children
}

func proportionalMegabytes(pid string) float64 {
	content, err := os.ReadFile(filepath.Join("/proc", pid, "smaps_rollup"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if size, ok := strings.CutPrefix(line, "Pss:"); ok {
			kilobytes, _ := strconv.ParseFloat(strings.Fields(size)[0], 64)
			return kilobytes / 1024
		}
	}
	return 0
}
