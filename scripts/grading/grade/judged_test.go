// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

// shop is a lab without an operator. It has two checks.
func shop() *manifest.Lab {
	return &manifest.Lab{
		Name: "01-shop", Title: "The shop", TimeLimit: metav1.Duration{Duration: time.Minute},
		Checks: []manifest.Check{
			{ID: "open", Title: "It is open", Points: 60},
			{ID: "clean", Title: "It is clean", Points: 40, Needs: []string{"open"}},
		},
	}
}

// judged returns the report of a run whose checks are a shell script, in a lab without an operator. The rest of a run
// is left out: no submission is built, and there is no cluster.
func judged(t *testing.T, options Options, script string) *report.Report {
	t.Helper()
	options.Checks = filepath.Join(t.TempDir(), "checks")
	if err := os.WriteFile(options.Checks, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	options.View = silent{}
	r := &run{Options: options, report: Blank(options, time.Now()), machine: watchMachine()}
	s := &subject{
		connection: &connection{}, cluster: &stage.Cluster{}, installed: withoutOperator{},
		builder: &submission.Builder{Submission: &submission.Submission{}, Scope: scope},
	}
	err = r.check(t.Context(), s, nil)
	r.conclude(t.Context(), r.reconsider(err, r.machine.stop()))
	if err := scope.Close(); err != nil {
		t.Error(err)
	}
	wantValid(t, options.Lab, r.report)
	return r.report
}

// withoutOperator is a submission without an operator.
type withoutOperator struct{ stage.Installed }

func (withoutOperator) User() string { return "" }

// noCluster is for runs that end before they need a cluster.
func noCluster(ctx context.Context, _ func(string)) (stage.Stage, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}
