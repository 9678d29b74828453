// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lva.io/operators/clusters/await"
)

// interval is the time between two checks of a wait.
const interval = 250 * time.Millisecond

// until calls look until it returns no objection. It returns look's error at once, or a TimeoutError with the last
// objection when the time is up.
func until(
	ctx context.Context, patience time.Duration, what string, look func(context.Context) (objection string, err error),
) error {
	patient, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	err := await.Until(patient, interval, what, look)
	if late, ok := errors.AsType[*await.LateError](err); ok && errors.Is(late, errPatience) {
		return &TimeoutError{What: what, Patience: patience, Objection: late.Objection}
	}
	return err
}

var errPatience = errors.New("timed out")

// waitReady is until for an object of an add-on. It reports each new objection. The error of a time-out explains
// the state of the namespace.
func waitReady(ctx context.Context, target Target, namespace string, patience time.Duration, what string,
	report func(string), look func(context.Context) (objection string, err error),
) error {
	reported := ""
	err := until(ctx, patience, what, func(ctx context.Context) (string, error) {
		objection, err := look(ctx)
		if objection != "" && objection != reported {
			report(objection)
			reported = objection
		}
		return objection, err
	})
	if timeout, ok := errors.AsType[*TimeoutError](err); ok {
		timeout.Explanation = Explain(ctx, target, namespace)
	}
	return err
}

// TimeoutError is returned when an object did not reach its expected state in time.
type TimeoutError struct {
	// What is the expected state, Patience is how long it was waited for, and Objection is what was missing at the last
	// check.
	What      string
	Patience  time.Duration
	Objection string
	// Explanation is the output of Explain.
	Explanation string
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("%s: not within %s: %s", e.What, e.Patience, e.Objection)
	if e.Explanation != "" {
		text += "\n" + e.Explanation
	}
	return text
}
