// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/report"
)

// exhaustedVariable makes this test binary print its verdict on an operator that has logged this text, or on a run that
// timed out. The operator may fill the folder home and the file audit.log in TMPDIR.
const (
	exhaustedVariable = "OPERATOR_LABS_TEST_EXHAUSTED"
	timedOut          = "the run timed out"
)

func init() {
	output := os.Getenv(exhaustedVariable)
	if output == "" {
		return
	}
	own := []string{filepath.Join(os.TempDir(), "home"), filepath.Join(os.TempDir(), "audit.log")}
	reason := "nothing is exhausted"
	if v := exhausted(output, nil, 0, own); v != nil && v.outcome == report.Error {
		reason = v.reason
		if v.machine != (reason == fullDisk) {
			reason = "machine error is wrong: " + reason
		}
	}
	if output == timedOut {
		r := &run{report: &report.Report{}}
		reason = r.orFullDisk(&verdict{outcome: report.TimedOut, reason: reason}, own).Error()
	}
	os.Stdout.WriteString(reason)
	os.Exit(0)
}

// The verdict counts only if the kernel confirms it, because the operator may have printed the line itself.
func TestExhaustedResources(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const (
		inotify = `E0101 main.go:12] "unable to start" err="failed to create fsnotify watcher: too many open files"`
		disk    = `write /tmp/x: no space left on device`
		fewer   = "this user has fewer instances of inotify left than the operator needs"
		nothing = "nothing is exhausted"
	)
	fill := func(file string) string {
		return `mount -t tmpfs -o size=258m none "$1" && mkdir "$1/home" && ` +
			`{ head -c 300000000 /dev/zero >"$1/` + file + `" 2>/dev/null || TMPDIR="$1" exec "$0"; }`
	}
	for _, test := range []struct{ what, output, prepare, want string }{
		{"inotify", inotify, `echo 0 >/proc/sys/user/max_inotify_instances && exec "$0"`, fewer},
		// The operator had one, and released it when it ended because it could not get a second one.
		{"one inotify instance left", inotify, `echo 1 >/proc/sys/user/max_inotify_instances && exec "$0"`, fewer},
		{
			"too few inotify instances", inotify,
			fmt.Sprintf(`echo %d >/proc/sys/user/max_inotify_instances && exec "$0"`, inotifyNeeded-1), fewer,
		},
		{
			"enough inotify instances", inotify,
			fmt.Sprintf(`echo %d >/proc/sys/user/max_inotify_instances && exec "$0"`, inotifyNeeded), nothing,
		},
		{"inotify, which is not exhausted", inotify, `exec "$0"`, nothing},
		{"the disk", disk, `mount -t tmpfs -o size=64k none "$1" && TMPDIR="$1" exec "$0"`, "the disk of TMPDIR is full"},
		{"a disk that the operator has filled", disk, fill("home/all"), nothing},
		{"a disk that the audit log has filled", disk, fill("audit.log"), nothing},
		{"a disk that another file has filled", disk, fill("other"), "the disk of TMPDIR is full"},
		{"a disk that is not full", disk, `exec "$0"`, nothing},
		{
			"a run on a full disk", timedOut, `mount -t tmpfs -o size=64k none "$1" && TMPDIR="$1" exec "$0"`,
			"the disk of TMPDIR is full",
		},
		{"a run whose operator has filled the disk", timedOut, fill("home/all"), nothing},
		{"a run on a disk that is not full", timedOut, `exec "$0"`, nothing},
		{"another error", "too many open files", `echo 0 >/proc/sys/user/max_inotify_instances && exec "$0"`, nothing},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(),
				"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", test.prepare, program, t.TempDir())
			c.Env = append(os.Environ(), exhaustedVariable+"="+test.output)
			out, err := c.CombinedOutput()
			if err != nil && os.Getenv("OPERATOR_LABS_NAMESPACES") != "required" {
				t.Skipf("unshare makes no namespaces here, see CI: %v: %s", err, out)
			}
			if err != nil || !strings.HasPrefix(string(out), test.want) {
				t.Errorf("verdict on %q: %v, %s", test.output, err, out)
			}
		})
	}
}

func TestRunsOut(t *testing.T) {
	t.Parallel()
	none := errors.New("there is no more")
	for _, test := range []struct {
		left   int
		ending error
		want   bool
	}{
		{0, none, true},
		{3, none, true},
		{4, none, false},
		{0, errors.New("another"), false},
		{3, fmt.Errorf("starting: %w", none), true},
	} {
		taken, most := 0, 0
		got := runsOut(4, none, func() (func(), error) {
			if taken == test.left {
				return nil, test.ending
			}
			taken++
			most = max(most, taken)
			return func() { taken-- }, nil
		})
		if got != test.want || taken != 0 || most != min(4, test.left) {
			t.Errorf("with %d left, runsOut() = %t, %d at once, %d were not released", test.left, got, most, taken)
		}
	}
}

// The limit counts processes and threads of a user, but not root's. So this test runs as another user, whose limit is
// the number of threads that the program itself has, and a few more.
func TestExhaustedProcesses(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be a user who has no other processes")
	}
	const user = 47110
	// The path uses the descriptor, since the other user may not enter the folder.
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	run := func(number, limit int) string {
		c := exec.CommandContext(t.Context(), "prlimit", fmt.Sprintf("--nproc=%d", limit), "/proc/self/fd/3")
		c.Dir, c.ExtraFiles = "/", []*os.File{program}
		c.Env = []string{
			"GOMAXPROCS=1", exhaustedVariable + "=runtime: failed to create new OS thread", "PATH=" + os.Getenv("PATH"),
		}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user + number), Gid: user}}
		out, _ := c.CombinedOutput()
		return string(out)
	}
	// Each limit has its own user, because the user's earlier program may still be ending.
	if got := run(0, 200); got != "nothing is exhausted" {
		t.Errorf("with enough processes, got %s", got)
	}
	// Below some limit, this program itself can't run. Above it, it can start some processes, but fewer than an operator
	// needs.
	for limit := 3; limit < 60; limit++ {
		if strings.HasPrefix(run(limit, limit), "runtime: ") {
			continue
		}
		const some = processesNeeded / 2
		if got := run(100+limit, limit+some); !strings.HasPrefix(got,
			"this user can start fewer processes or threads than the operator needs") {
			t.Errorf("with %d processes, %d of them left, got %s", limit+some, some, got)
		}
		return
	}
	t.Error("the program ran with none of the limits")
}

func TestOutOfMemoryKillIsMachineError(t *testing.T) {
	t.Parallel()
	if process.OutOfMemoryKills() < 0 {
		t.Fatal("the kernel does not report how many processes it has killed")
	}
	killed := exec.CommandContext(t.Context(), "/bin/sh", "-c", "kill -9 $$").Run()
	if v := exhausted("", killed, 1, nil); v == nil || v.outcome != report.Error ||
		!strings.Contains(v.reason, "no memory left") {
		t.Errorf("verdict is %+v", v)
	}
	for what, v := range map[string]*verdict{
		"no process was killed": exhausted("", killed, 0, nil),
		"it ended otherwise":    exhausted("", errors.New("signal: killed"), 1, nil),
		"it ended well":         exhausted("", nil, 1, nil),
	} {
		if v != nil {
			t.Errorf("%s: verdict is %+v, want nil", what, v)
		}
	}
}
