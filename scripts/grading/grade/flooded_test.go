// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/report"
)

// An audit log that is too long is a flood if most of it is the submission's. Checks that could not use the log end
// early, which must not hide the cause.
func TestFullAuditLogIsFloodOfSubmission(t *testing.T) {
	t.Parallel()
	unread := func(err error) error { return &fs.PathError{Op: "read", Path: "audit.log", Err: err} }
	for _, test := range []struct {
		name, by string
		err      error
		want     report.Outcome
	}{
		{"its operator", "", &limited.LongError{Limit: 1 << 30}, report.Flooded},
		{"its scripts", rescuerUser, &limited.LongError{Limit: 1 << 30}, report.Flooded},
		{"another user", "system:node:n", &limited.LongError{Limit: 1 << 30}, report.Error},
		{"a full disk", "", unread(syscall.ENOSPC), report.Error},
		{"a broken disk", "", unread(syscall.EIO), report.Error},
	} {
		s := &subject{installed: withoutOperator{}}
		err := s.auditError(fmt.Errorf("reading the audit log: %w", test.err), func(users ...string) bool {
			return slices.Contains(users, test.by)
		})
		r := &run{report: &report.Report{}}
		r.conclude(t.Context(), errors.Join(err, newLogTail().failure("the checks ended early")))
		if r.report.Outcome != test.want {
			t.Errorf("%s: outcome is %s, want %s: %s", test.name, r.report.Outcome, test.want, r.report.Reason)
		}
	}
	if err := (&subject{installed: withoutOperator{}}).auditError(nil, nil); err != nil {
		t.Errorf("with a log that was read, the error is %v", err)
	}
}
