// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

// clusterView records how the step that starts the cluster ended.
type clusterView struct {
	silent
	note string
}

func (v *clusterView) StepDone(name string, _ time.Duration, note string) {
	if name == startCluster {
		v.note = note
	}
}

// The steps run in goroutines, where a panic ends the program.
func TestPanicOfStepIsErrorOfRun(t *testing.T) {
	t.Parallel()
	opened, err := submission.Open(samples.Lay(t, samples.Module+"-- main.go --\n"+samples.Program), "")
	if err != nil {
		t.Fatal(err)
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer scope.Close()
	generator, err := exec.LookPath("true") // it generates nothing
	if err != nil {
		t.Fatal(err)
	}
	view := &clusterView{}
	r := &run{report: &report.Report{}, Options: Options{
		View: view, Start: func(context.Context, func(string)) (stage.Stage, error) { panic("no freezer") },
	}}
	_, _, err = r.prepare(t.Context(),
		&submission.Builder{Submission: opened, Scope: scope, ControllerGen: generator})
	if err == nil || !strings.HasPrefix(err.Error(), "panic: no freezer\n") ||
		!strings.Contains(err.Error(), t.Name()+".func") {
		t.Errorf("prepare() returned the error %v", err)
	}
	if view.note != "failed" || len(r.report.Steps) != 3 {
		t.Errorf("the step ended with the note %q, and the report has the steps %+v", view.note, r.report.Steps)
	}
}
