// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package filelock_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"lva.io/operators/clusters/filelock"
)

func TestLockHasOneHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := filelock.Wait(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.Try(name); !errors.Is(err, filelock.ErrHeld) {
		t.Fatalf("Try() of a held lock: error = %v", err)
	}
	enough := errors.New("enough waited")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, enough)
	defer cancel()
	if _, err := filelock.Wait(ctx, name); !errors.Is(err, enough) {
		t.Fatalf("Wait() for a held lock: error = %v", err)
	}
	turn := make(chan error, 1)
	go func() {
		unlock, err := filelock.Wait(t.Context(), name)
		if err == nil {
			unlock()
		}
		turn <- err
	}()
	unlock()
	if err := <-turn; err != nil {
		t.Fatalf("Wait() for a released lock: error = %v", err)
	}
	// A waiter that gave up must also release the lock when its system call gets it.
	unlock, err = filelock.Wait(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestLockInMissingFolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "nowhere", "lock")
	if _, err := filelock.Wait(t.Context(), name); err == nil {
		t.Error("Wait() succeeded for a file in a missing folder")
	}
	if _, err := filelock.Try(name); err == nil || errors.Is(err, filelock.ErrHeld) {
		t.Errorf("Try() of a file in a missing folder: error = %v", err)
	}
}
