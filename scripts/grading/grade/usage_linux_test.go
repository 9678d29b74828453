// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestUsageOf(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this kernel does not count")
	}
	// becomes waits until a program's usage over a while is as required. On a busy machine, the program may take some
	// time to start.
	becomes := func(must string, is func(cpu float64, runs int) bool, name string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, args...)
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its child ends with it
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL); _ = command.Wait() }()
		deadline := time.After(20 * time.Second)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for before := usageOf(command.Process.Pid); ; {
			select {
			case <-tick.C:
			case <-deadline:
				t.Errorf("%s %q %s, and last used %+v", name, args, must, before)
				return
			}
			after := usageOf(command.Process.Pid)
			if before.Known && after.Known && before.CPU > 0 && is(after.CPU-before.CPU, after.Runs-before.Runs) {
				return
			}
			before = after
		}
	}
	busy := func(cpu float64, _ int) bool { return cpu >= 0.02 }
	becomes("waits", func(cpu float64, runs int) bool { return cpu <= 0.01 && runs <= 5 }, "sleep", "60")
	becomes("works without a pause", busy, "sh", "-c", "while :; do :; done")
	becomes("has a child that works without a pause", busy, "sh", "-c", "sh -c 'while :; do :; done' & wait")
	if usage := usageOf(1 << 30); usage.Known {
		t.Errorf("a process that does not exist used %+v", usage)
	}
}
