// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What a process is between two programs lasts too short to be caught; what must not be taken for it does not.
func TestOnlyAProcessBetweenTwoProgramsIsInExec(t *testing.T) {
	t.Parallel()
	bare := exec.Command("/bin/sleep", "1000")
	bare.Env = []string{}
	if err := bare.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bare.Process.Kill(); _ = bare.Wait() })
	dead := exec.Command("/bin/true")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dead.Wait() })
	eventually(t, "the process is dead and not buried", func() bool { return !runs(dead.Process.Pid) })
	eventually(t, "the other has its program", func() bool {
		program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", bare.Process.Pid))
		return err == nil && filepath.Base(program) == "sleep" && !inExec(fmt.Sprintf("/proc/%d", bare.Process.Pid))
	})
	for name, process := range map[string]int{
		"ours": os.Getpid(), "without an environment": bare.Process.Pid, "dead": dead.Process.Pid, "of the kernel": 2, "nobody": 1 << 30,
	} {
		if inExec(fmt.Sprintf("/proc/%d", process)) {
			t.Errorf("a process that is %s counts as one in exec", name)
		}
	}
}

func TestAProcessWithoutMemoryOfItsProgramIsInExec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stat := func(state string, flags, environmentEnd int) string {
		line := "77 (a (b) c) " + state
		for field := 4; field <= 52; field++ {
			switch field {
			case 9:
				line += fmt.Sprint(" ", flags)
			case 51:
				line += fmt.Sprint(" ", environmentEnd)
			default:
				line += " 1"
			}
		}
		return line + "\n"
	}
	for _, test := range []struct {
		stat string
		want bool
	}{
		{stat("R", 0x400000, 0), true},
		{stat("D", 0x400000, 0), true},
		{stat("S", 0x400000, 4096), false},
		{stat("I", 0x208040, 0), false},
		{stat("Z", 0x400000, 0), false},
		{"", false},
	} {
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(test.stat), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := inExec(dir); got != test.want {
			t.Errorf("inExec is %v for %q, want %v", got, test.stat, test.want)
		}
	}
}
