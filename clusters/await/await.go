// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package await waits for a condition: by a watch, and by polling where no watch reports it. The loops are client-go's
// and apimachinery's. This package adds the reason to the error when the time is up.
package await

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// LateError says that what was waited for did not come before the context ended.
type LateError struct {
	What string
	// Objection is what stood against it when it was last looked at; empty: it was never looked at to the end.
	Objection string
	// Cause is that of the context.
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

// Until looks at something at once, and then at each interval, until look objects to nothing. It ends with look's
// error, unless the context has ended: then with a *LateError.
func Until(ctx context.Context, interval time.Duration, what string, look func(context.Context) (objection string, err error)) error {
	objection := ""
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (done bool, err error) {
		said, err := look(ctx)
		if ctx.Err() != nil {
			return false, nil //nolint:nilerr // whatever look says: it was ended
		}
		objection = said
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
