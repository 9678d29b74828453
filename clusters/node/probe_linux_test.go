// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A machine without free memory kills a probe, which reveals nothing about whether there can be a node. Scripts replace
// the program, because a test can't make the kernel kill it at a given moment.
func TestKilledProbe(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	const leaves = "#!/bin/sh\nmkdir -p \"$TMPDIR/operator-labs-probe-1/log\" \"$TMPDIR/operator-labs-probe-1/root\"\n"
	for _, test := range []struct{ name, script, wrong string }{
		{"killed once", leaves + "[ -e \"$0.tried\" ] && echo '{}' && exit\n: > \"$0.tried\"\nkill -9 $$\n", ""},
		{"always killed", leaves + "kill -9 $$\n", "testing whether this machine can have a node: signal: killed"},
		{
			"not killed, and fails", leaves + ": >> \"$0.tried\"; [ -s \"$0.tried\" ] && echo '{}' && exit; " +
				"echo x > \"$0.tried\"; echo no disk >&2; exit 1\n",
			"testing whether this machine can have a node: exit status 1: no disk",
		},
		{"killed after its report", leaves + "echo '{\"reason\": \"no namespaces\"}'\nkill -9 $$\n", "no namespaces"},
	} {
		t.Run(test.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "init")
			if err := os.WriteFile(program, []byte(test.script), 0o700); err != nil {
				t.Fatal(err)
			}
			err := Probe(t.Context(), Programs{Init: program})
			if (err != nil) != (test.wrong != "") || err != nil && !strings.HasPrefix(err.Error(), test.wrong) {
				t.Errorf("Probe() error = %v, want %q", err, test.wrong)
			}
			wantNoProbe(t, tmp)
		})
	}
}

// If a run is cancelled during the probe, as by a save in lab watch, the error is that cancellation, and not a signal.
func TestCancelledRunEndsProbe(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	program := filepath.Join(t.TempDir(), "init")
	started := program + ".started"
	if err := os.WriteFile(program, []byte("#!/bin/sh\nmkdir \"$TMPDIR/operator-labs-probe-1\"\n"+
		"echo > \"$0.started\"\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	errSaved := errors.New("a file was saved")
	ended := make(chan error, 1)
	go func() { ended <- Probe(ctx, Programs{Init: program}) }()
	if _, err := os.ReadFile(started); err != nil { // waits until the program writes to it
		t.Fatal(err)
	}
	cancel(errSaved)
	if err := <-ended; !errors.Is(err, errSaved) {
		t.Errorf("Probe() error = %v, want the cause of the cancellation", err)
	}
	wantNoProbe(t, tmp)
}

func wantNoProbe(t *testing.T, dir string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(entry.Name(), "operator-labs-probe-") {
			t.Errorf("%s was not removed", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
