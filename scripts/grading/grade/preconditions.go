// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// errUnmet ends a run whose preconditions do not hold. The report names the precondition that failed.
var errUnmet = &verdict{outcome: report.Graded}

// preconditions runs the checks that must pass before the operator starts and before the API server sends a request
// to it. Without them, every check of the lab would wait in vain until it times out. The report does not show a
// precondition that holds. It shows one that fails as a check without points, on which all other checks depend.
func (r *run) preconditions(ctx context.Context, s *subject) error {
	if !slices.ContainsFunc(r.Lab.Checks, manifest.Check.Precondition) {
		return nil
	}
	var failed *report.Check
	ended := 0
	take := func(event protocol.Event) error {
		listed, err := r.Lab.Check(event.Check)
		if err != nil {
			return fmt.Errorf("the checks reported %q, which is not a precondition of %s", event.Check, r.Lab.Name)
		}
		if event.Status != "" {
			ended++
		}
		if report.Status(event.Status) == report.Failed && failed == nil {
			failed = blank(*listed)
			failed.At = time.Since(r.report.Started).Seconds() - event.Seconds
			takeResult(failed, event)
		}
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, installTimeout, errInstall)
	defer cancel()
	output, err := r.runChecks(ctx, s, protocol.Run{Preconditions: true}, nil, take)
	if err != nil {
		return err
	}
	if failed == nil && ended < len(r.Lab.Checks)-len(r.Lab.Own()) {
		return output.failure("the checks ended before all preconditions were checked")
	}
	if failed == nil {
		return nil
	}
	r.View.CheckStarted(*failed)
	r.View.CheckDone(*failed)
	for i := range r.report.Checks {
		r.report.Checks[i].Reason = fmt.Sprintf("skipped: it needs %s of lab %s, which failed",
			failed.ID, r.Lab.Preconditions.Lab)
	}
	if r.torture != nil {
		return &verdict{outcome: report.NotGenerated, reason: fmt.Sprintf("%s of lab %s fails: %s",
			failed.ID, r.Lab.Preconditions.Lab, failed.Observed)}
	}
	r.report.Checks = append([]report.Check{*failed}, r.report.Checks...)
	return errUnmet
}
