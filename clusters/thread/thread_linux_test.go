// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package thread

import (
	"errors"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAllCallsRunOnTheSameThread(t *testing.T) {
	t.Parallel()
	want := errors.New("it did not work")
	var mutex sync.Mutex
	threads := map[int]bool{}
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			err := Run(func() error {
				mutex.Lock()
				defer mutex.Unlock()
				threads[unix.Gettid()] = true
				return want
			})
			if !errors.Is(err, want) {
				t.Errorf("error = %v", err)
			}
		})
	}
	running.Wait()
	if len(threads) != 1 {
		t.Errorf("got %d threads", len(threads))
	}
}
