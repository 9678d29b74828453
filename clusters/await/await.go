// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package await waits for a condition, by a watch or, where no watch reports it, by polling. The loops are those of
// client-go and apimachinery. This package adds the reason to the error when the time is up.
package await

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// LateError is returned when the context ends before the condition is met.
type LateError struct {
	What string
	// Objection is the reason why the condition was not met when it was last checked. It is empty if no check was
	// completed.
	Objection string
	// Cause is the cause of the context's end.
	Cause error
}

func (e *LateError) Error() string {
	text := fmt.Sprintf("waiting for %s: %v", e.What, e.Cause)
	if e.Objection != "" {
		text += "; " + e.Objection
	}
	return text
}

func (e *LateError) Unwrap() error { return e.Cause }

// Until calls look at once, and then at each interval, until it returns no objection. It returns look's error, or a
// *LateError if the context has ended.
func Until(
	ctx context.Context, interval time.Duration, what string, look func(context.Context) (objection string, err error),
) error {
	objection := ""
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (done bool, err error) {
		current, err := look(ctx)
		if ctx.Err() != nil {
			return false, nil //nolint:nilerr // the end of the context explains look's error
		}
		objection = current
		return objection == "", err
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil:
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return &LateError{What: what, Objection: objection, Cause: context.Cause(ctx)}
}

// Within is Until with a time limit.
func Within(
	ctx context.Context, limit, interval time.Duration, what string,
	look func(context.Context) (objection string, err error),
) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %s", limit))
	defer cancel()
	return Until(ctx, interval, what, look)
}
