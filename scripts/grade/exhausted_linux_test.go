// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"lva.io/operators/scripts/report"
)

// exhaustedVariable makes this test binary say what it finds out about an operator that has logged this.
const exhaustedVariable = "OPERATOR_LABS_TEST_EXHAUSTED"

func init() {
	said := os.Getenv(exhaustedVariable)
	if said == "" {
		return
	}
	reason := "nothing is exhausted"
	if v := exhausted(said, nil, 0); v != nil && v.outcome == report.Error {
		reason = v.reason
	}
	os.Stdout.WriteString(reason)
	os.Exit(0)
}

// The kernel confirms it, or the line is the operator's own.
func TestWhatAMachineHasNoMoreOf(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const (
		inotify = `E0101 main.go:12] "unable to start" err="failed to create fsnotify watcher: too many open files"`
		disk    = `write /tmp/x: no space left on device`
		nothing = "nothing is exhausted"
	)
	for _, test := range []struct{ what, said, prepare, want string }{
		{"inotify", inotify, `echo 0 >/proc/sys/user/max_inotify_instances && exec "$0"`, "this user has no instance of inotify left"},
		{"it only says so of inotify", inotify, `exec "$0"`, nothing},
		{"the disk", disk, `mount -t tmpfs -o size=64k none "$1" && TMPDIR="$1" exec "$0"`, "the disk of TMPDIR is full"},
		{"it only says so of the disk", disk, `exec "$0"`, nothing},
		{"another error", "too many open files", `echo 0 >/proc/sys/user/max_inotify_instances && exec "$0"`, nothing},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", test.prepare, program, t.TempDir())
			c.Env = append(os.Environ(), exhaustedVariable+"="+test.said)
			out, err := c.CombinedOutput()
			if err != nil && os.Getenv("OPERATOR_LABS_NAMESPACES") != "required" {
				t.Skipf("unshare makes no namespaces here, see CI: %v: %s", err, out)
			}
			if err != nil || !strings.HasPrefix(string(out), test.want) {
				t.Errorf("%q is %v, %s", test.said, err, out)
			}
		})
	}
}

func TestAnOperatorThatTheKernelKilledForLackOfMemory(t *testing.T) {
	t.Parallel()
	if outOfMemoryKills() < 0 {
		t.Fatal("the kernel does not say how many processes it has killed")
	}
	killed := errors.New("signal: killed")
	if v := exhausted("", killed, 1); v == nil || v.outcome != report.Error || !strings.Contains(v.reason, "no memory left") {
		t.Errorf("the verdict is %+v", v)
	}
	for what, v := range map[string]*verdict{
		"nobody was killed": exhausted("", killed, 0), "it ended otherwise": exhausted("", errors.New("exit status 1"), 1), "it ended well": exhausted("", nil, 1),
	} {
		if v != nil {
			t.Errorf("%s, and the verdict is %+v", what, v)
		}
	}
}
