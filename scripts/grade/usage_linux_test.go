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

func TestUsageTellsWhoIsBusyFromWhoWaits(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this kernel does not count")
	}
	during := func(name string, args ...string) (cpu float64, runs int) {
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
		for {
			before := usageOf(command.Process.Pid)
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("%s is not known", name)
			}
			if after := usageOf(command.Process.Pid); before.Known && after.Known && before.CPU > 0 {
				return after.CPU - before.CPU, after.Runs - before.Runs
			}
		}
	}
	if cpu, runs := during("sleep", "60"); cpu > 0.01 || runs > 5 {
		t.Errorf("who waits used %g s and ran %d times", cpu, runs)
	}
	if cpu, _ := during("sh", "-c", "while :; do :; done"); cpu < 0.02 {
		t.Errorf("who works without a pause used %g s", cpu)
	}
	if cpu, _ := during("sh", "-c", "sh -c 'while :; do :; done' & wait"); cpu < 0.02 {
		t.Errorf("whose child works without a pause used %g s", cpu)
	}
	if usage := usageOf(1 << 30); usage.Known {
		t.Errorf("nobody has this number, and used %+v", usage)
	}
}
