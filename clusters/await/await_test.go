// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package await

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	t.Parallel()
	broken, late := errors.New("it is broken"), errors.New("it was not done within 10s")
	for _, test := range []struct {
		name   string
		look   func(n int) (string, error)
		looked int
		took   time.Duration
		err    string
		is     error
	}{
		{name: "at once", look: func(int) (string, error) { return "", nil }, looked: 1},
		{name: "the third time", looked: 3, took: 4 * time.Second, look: func(n int) (string, error) {
			if n < 3 {
				return "not yet", nil
			}
			return "", nil
		}},
		{
			name: "an error ends it", looked: 2, took: 2 * time.Second, err: "waiting for tea: it is broken", is: broken,
			look: func(n int) (string, error) {
				if n < 2 {
					return "not yet", nil
				}
				return "", broken
			},
		},
		{
			name: "too late", looked: 6, took: 10 * time.Second,
			err: "waiting for tea: it was not done within 10s; the water is cold", is: late,
			look: func(int) (string, error) { return "the water is cold", nil },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, late)
				defer cancel()
				looked, began := 0, time.Now()
				err := Until(ctx, 2*time.Second, "tea", func(context.Context) (string, error) {
					looked++
					return test.look(looked)
				})
				if took := time.Since(began); looked < test.looked-1 || looked > test.looked || took != test.took {
					t.Errorf("got %d calls in %s, want %d in %s", looked, took, test.looked, test.took)
				}
				if test.err == "" && err != nil ||
					test.err != "" && (err == nil || err.Error() != test.err || !errors.Is(err, test.is)) {
					t.Errorf("error = %v, want %q", err, test.err)
				}
			})
		})
	}
}

func TestWithinReportsObjection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		err := Within(t.Context(), time.Minute, time.Second, "the page", func(context.Context) (string, error) {
			return "it has no body", nil
		})
		const want = "waiting for the page: not done after 1m0s; it has no body"
		if err == nil || err.Error() != want {
			t.Errorf("error = %v, want %q", err, want)
		}
	})
}
