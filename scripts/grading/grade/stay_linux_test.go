// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/report"
)

// unwalled turns the sandbox off, for tests of the cleanup after actions that no wall prevented.
func unwalled(options Options) Options {
	options.Sandbox = SandboxOff
	return options
}

// A submission's leftover can't change a report afterwards, and its changes to folders harm no later run.
func TestDaemonOfSubmissionIsKilled(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	got := grade(t.Context(), t, alone(t, unwalled(options(t, "2", unpack(t, "wants-to-stay")))))
	if got.Outcome != report.Graded || len(got.Notices) > 0 {
		t.Errorf("outcome is %s (%s), with the notices %q", got.Outcome, got.Reason, got.Notices)
	}
	runs, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	alive := filepath.Join(runs, "alive")
	if err := os.Remove(alive); err != nil {
		t.Fatalf("no daemon ran: %v", err)
	}
	<-time.After(time.Second)
	if _, err := os.Stat(alive); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a daemon of the submission was alive after the run (%v)", err)
	}
}

func TestLeftoverIsReportedAsNotice(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	got := grade(t.Context(), t, alone(t, unwalled(options(t, "2", unpack(t, "leaves-an-immutable-file")))))
	runs, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(runs, "*", "tmp", "immutable"))
	if err != nil || len(left) > 1 {
		t.Fatalf("immutable files: %q, %v", left, err)
	}
	if len(left) == 0 {
		t.Skip("only root can make a file immutable, and not on every file system")
	}
	file, err := os.Open(left[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, 0); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(filepath.Dir(left[0]))
	want := "the run folder " + dir + " can't be removed"
	if got.Outcome != report.Graded || len(got.Notices) != 1 || !strings.HasPrefix(got.Notices[0], want) {
		t.Errorf("outcome is %s (%s), with the notices %q, want graded, with %q", got.Outcome, got.Reason, got.Notices, want)
	}
	scope, err := process.NewScope(process.Options{}) // sweeps
	if err != nil {
		t.Fatal(err)
	}
	if err := scope.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the next run has not removed the folder: %v", err)
	}
}

func TestDaemonOfScriptIsKilled(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	s := scripted(t)
	dir := t.TempDir()
	alive := filepath.Join(dir, "alive")
	const daemon = `cd "$0"; env -i setsid sh -c 'echo >begun; sleep 1; echo >alive' >/dev/null 2>&1 & ` +
		`while ! [ -e begun ]; do sleep 0.01; done; exit 4`
	got, err := s.run(t.Context(), "zombie/try.sh", []string{"sh", "-c", daemon, dir})
	if err != nil || got.Exit != 4 {
		t.Fatalf("the script ended with %v, %v", got, err)
	}
	<-time.After(1500 * time.Millisecond)
	if _, err := os.Stat(alive); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a daemon of the script was alive after it (%v)", err)
	}
}
