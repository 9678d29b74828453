// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"context"
	"testing"
	"time"
)

// Try runs a step as if it were its own check, and returns why it failed. Nil: it did not fail. A check that tries
// several times, to find the smallest example, ends with Fail. After a failed try the check can no longer pass.
func (c *Check) Try(ctx context.Context, t *testing.T, name string,
	step func(context.Context, *testing.T, *Check),
) *Failure {
	t.Helper()
	again := &Check{Suite: c.Suite, ID: c.ID, began: c.Audit.Now(), started: time.Now()}
	again.used, _ = c.Operator.usage(ctx) // as for a check
	finished := false
	t.Run(name, func(t *testing.T) {
		step(ctx, t, again)
		finished = true
	})
	if again.failure == nil && !finished {
		return &Failure{Expected: "the story comes to an end", Observed: "it ended without a verdict"}
	}
	return again.failure
}
