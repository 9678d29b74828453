// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestManyUsersCannotHaveAllWatches(t *testing.T) {
	t.Parallel()
	counter := watchCounter{byUser: map[string]int{}}
	user := func(i int) string { return fmt.Sprintf("user-%d", i/maxWatches) }
	for i := range maxAllWatches {
		if err := counter.begin(user(i)); err != nil {
			t.Fatalf("watch %d: %v", i+1, err)
		}
	}
	if err := counter.begin("one-more"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("with %d watches the error is %v", maxAllWatches, err)
	}
	counter.end(user(0))
	if err := counter.begin("one-more"); err != nil {
		t.Errorf("one has ended, and the error is %v", err)
	}
	for i := range maxAllWatches - 1 {
		counter.end(user(i + 1))
	}
	counter.end("one-more")
	if counter.all != 0 || len(counter.byUser) != 0 {
		t.Errorf("all have ended, and it counts %d of %v", counter.all, counter.byUser)
	}
}
