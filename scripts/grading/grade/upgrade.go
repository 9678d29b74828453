// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"fmt"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
)

// notExtended returns why the lab's extension can't be tried. It is empty if the extension can be tried or the lab
// has none.
func (r *run) notExtended(s *subject, o *operator) string {
	extension := r.Lab.Extension
	switch {
	case extension == nil || o == nil:
		return ""
	case !s.heldBack:
		return fmt.Sprintf("the extension is not started: no kind of the submission has the version %s", extension.Version)
	case o.upgrader() == nil:
		return "the operator cannot be upgraded here: grade it on the embedded cluster, or as a Pod on kind"
	}
	return ""
}

// upgrader is the launcher of the operator, if it can install versions that were held back, and otherwise nil.
func (o *operator) upgrader() stage.Upgrader {
	if upgrader, ok := o.launcher.(stage.Upgrader); ok && upgrader.Upgradable() {
		return upgrader
	}
	return nil
}

// upgrade upgrades the operator as a user would: first its CustomResourceDefinitions, whose webhook already serves,
// then the operator.
func (o *operator) upgrade(ctx context.Context) error {
	upgrader := o.upgrader()
	if upgrader == nil {
		return errors.New("this operator cannot be upgraded here")
	}
	o.upgraded.Store(true)
	if err := upgrader.Upgrade(ctx); err != nil {
		return err
	}
	if err := o.stop(stage.StopGrace); err != nil {
		return err
	}
	if err := o.start(); err != nil {
		return err
	}
	return upgrader.AwaitListening(ctx)
}

// endExtension handles an operator that ended, or checks that took too long, after the upgrade: only the extension
// ends, and not the run, because the lab itself has been graded by then. It reports whether that was the case.
func (r *results) endExtension(reason string) bool {
	if r.operator == nil || !r.operator.upgraded.Load() {
		return false
	}
	for i := range r.report.Checks {
		check := &r.report.Checks[i]
		if r.ended.Has(check.ID) || check.Status == report.Failed {
			continue
		}
		check.Reason = "skipped: " + reason
		r.View.CheckDone(*check)
	}
	return true
}
