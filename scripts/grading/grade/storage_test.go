// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/faults"
)

// A file that is stored in a folder, or in a new subfolder, is a change after which the server is killed.
func TestStorageChangeKillsServer(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	killed := make(chan struct{}, 1)
	injector := faults.New(func() error { killed <- struct{}{}; return nil })
	defer injector.Close()
	end, err := followFolder(folder, injector)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	arm := func(at int) {
		t.Helper()
		if err := injector.Arm(faults.Schedule{
			Faults: []faults.Fault{{Kind: faults.KillAfter, Class: faults.Change, At: at}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	dies := func(reason string) {
		t.Helper()
		select {
		case <-killed:
		case <-time.After(10 * time.Second):
			t.Fatalf("the server was not killed after %s; log: %v", reason, injector.Log())
		}
	}
	arm(1)
	if err := os.Mkdir(filepath.Join(folder, "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	dies("a folder was made")
	arm(2)
	file := filepath.Join(folder, "wal", "log")
	if err := os.WriteFile(file, []byte("pedro"), 0o600); err != nil { // creates, and writes
		t.Fatal(err)
	}
	dies("a file in the new folder was written")
	arm(1)
	if err := os.Chmod(file, 0o400); err != nil { // changes nothing that is stored
		t.Fatal(err)
	}
	if err := os.Rename(file, file+".old"); err != nil {
		t.Fatal(err)
	}
	dies("a file was renamed")
	log := injector.Log()
	if last := log[len(log)-1]; last.Verb == "chmod" || last.Resource == "" {
		t.Errorf("the server was killed after %s", last)
	}
}

func TestFollowMissingFolder(t *testing.T) {
	t.Parallel()
	if _, err := followFolder(filepath.Join(t.TempDir(), "away"), faults.New(nil)); err == nil {
		t.Error("followFolder() of a missing folder returned no error")
	}
}
