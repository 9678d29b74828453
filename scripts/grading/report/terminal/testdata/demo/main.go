// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command demo prints one of the reports in ../../../testdata twice: as it would appear while grading, and as it
// appears when it is read from its file: `go run ./grading/report/terminal/testdata/demo [-speed 5] graded-failed`.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/terminal"
)

func main() {
	speed := flag.Float64("speed", 5, "how many times faster than it was")
	stored := flag.Bool("stored", false, "show only what is seen from a stored report")
	flag.Parse()
	if err := run(flag.Arg(0), *speed, *stored); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name string, speed float64, stored bool) error {
	r, err := report.Read(filepath.Join("report", "testdata", name+".json"))
	if err != nil {
		return err
	}
	o := terminal.Options{
		Commands: terminal.Commands{
			Hint: "make hint-2", Read: "make read-2", Grade: "make lab-2",
			Torture: "make torture-2", Next: "make lab-3",
		},
		File: "out/02-reconciler/report.json", Page: "out/02-reconciler/report.html",
		OperatorLog: "out/02-reconciler/operator.log",
	}
	if stored {
		return terminal.Render(os.Stdout, r, o)
	}
	pass := func(seconds float64) { <-time.After(time.Duration(seconds / speed * float64(time.Second))) }
	live := terminal.NewLive(os.Stdout, r, o)
	var steps sync.WaitGroup
	for _, step := range r.Steps {
		steps.Go(func() {
			live.StepStarted(step.Name)
			pass(step.Seconds)
			note := map[string]string{
				"cluster": "Kubernetes " + r.Environment.Kubernetes, "build": r.Submission.Module,
			}[step.Name]
			live.StepDone(step.Name, time.Duration(step.Seconds*float64(time.Second)), note)
		})
	}
	steps.Wait()
	if r.Outcome != report.NotBuilt {
		for _, check := range r.Checks {
			if check.Status != report.Skipped {
				live.CheckStarted(check)
				pass(check.Seconds)
			}
			live.CheckDone(check)
		}
	}
	live.Close()
	return terminal.Verdict(os.Stdout, r, o)
}
