// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
	"golang.org/x/sync/errgroup"

	"lva.io/operators/clusters/process"
)

const (
	// batch is how many tests one process of the suite runs. The process takes two seconds to start, and results that it
	// has not reported are lost when it is killed.
	batch = 4
	// testLimit is the time limit of one test. The suite's own waits end after ten minutes at most, and some tests have
	// two of them.
	testLimit = 20 * time.Minute
)

// Run describes a run of tests against a cluster.
type Run struct {
	Suite
	// Kubeconfig is the file with an administrator's access to the cluster.
	Kubeconfig string
	// Kubectl is the program that tests of kubectl run.
	Kubectl string
	Tests   []Test
	// Parallel is how many tests run at once, apart from serial tests.
	Parallel int
	// Ended is called with each result, one after the other, as soon as its batch has ended.
	Ended func(Result) error
}

// Do runs the tests: first those that may run in parallel, then the serial ones.
func (r Run) Do(ctx context.Context) error {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	var parallel, serial []Test
	for _, test := range r.Tests {
		if test.Serial() {
			serial = append(serial, test)
		} else {
			parallel = append(parallel, test)
		}
	}
	err = r.batches(ctx, scope, parallel, max(1, r.Parallel))
	if err == nil {
		err = r.batches(ctx, scope, serial, 1)
	}
	return errors.Join(err, scope.Close())
}

// batches runs tests in at most parallel processes at a time.
func (r Run) batches(ctx context.Context, scope *process.Scope, tests []Test, parallel int) error {
	results := make(chan []Result)
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(parallel + 1) // and one for the goroutine that starts them
	running.Go(func() error {
		for some := range slices.Chunk(tests, batch) {
			running.Go(func() error {
				ended, err := r.batch(ctx, scope, some)
				select {
				case results <- ended:
				case <-ctx.Done():
				}
				return err
			})
		}
		return nil
	})
	var recordErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ended := range results {
			for _, result := range ended {
				recordErr = errors.Join(recordErr, r.Ended(result))
			}
		}
	}()
	err := running.Wait()
	close(results)
	<-done
	return errors.Join(err, recordErr)
}

// batch runs a few tests in a process, and reads its report.
func (r Run) batch(ctx context.Context, scope *process.Scope, tests []Test) ([]Result, error) {
	limit := time.Duration(len(tests)) * testLimit
	ctx, cancel := context.WithTimeoutCause(ctx, limit+time.Minute, errors.New("the conformance suite timed out"))
	defer cancel()
	dir, err := os.MkdirTemp(scope.Dir, "batch-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for the tests: %w", err)
	}
	defer os.RemoveAll(dir)
	report := filepath.Join(dir, "report.json")
	var output bytes.Buffer
	p, err := scope.Start(process.Spec{
		Name: "the conformance suite", Path: r.Program, Dir: dir, Stdout: &output, Stderr: &output,
		Env: append(os.Environ(), "TMPDIR="+dir), // its tests leave temporary files behind
		Args: []string{
			"--kubeconfig=" + r.Kubeconfig, "--kubectl-path=" + r.Kubectl, "--provider=skeleton",
			"--num-nodes=1", "--disable-log-dump", "--dump-logs-on-failure=false",
			"--ginkgo.focus=" + focusOn(tests), "--ginkgo.json-report=" + report,
			"--ginkgo.no-color", "--ginkgo.timeout=" + limit.String(),
		},
	})
	if err != nil {
		return nil, err
	}
	err = p.Wait(ctx)
	if ctx.Err() != nil {
		p.Kill()
		return nil, context.Cause(ctx)
	}
	specs, readErr := readReport(report)
	if readErr != nil && err == nil {
		err = readErr
	}
	var results []Result
	for _, test := range tests {
		i := slices.IndexFunc(specs, func(spec types.SpecReport) bool { return spec.FullText() == test.Name })
		if i < 0 {
			results = append(results, Result{
				Test: test.Name, Verdict: Failed, Why: "the suite ended without a verdict: " + lastLine(output.String(), err),
			})
			continue
		}
		results = append(results, resultOf(specs[i]))
	}
	return results, nil
}

// focusOn returns a regular expression for exactly these tests. Ginkgo compares it with a test's file and full name.
func focusOn(tests []Test) string {
	names := make([]string, len(tests))
	for i, test := range tests {
		names[i] = regexp.QuoteMeta(test.Name)
	}
	return "(" + strings.Join(names, "|") + ")$"
}

func readReport(file string) (specs []types.SpecReport, err error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no report")
	}
	if err != nil {
		return nil, err
	}
	var reports []types.Report
	if err := json.Unmarshal(content, &reports); err != nil {
		return nil, fmt.Errorf("reading the report of the conformance suite: %w", err)
	}
	for _, report := range reports {
		specs = append(specs, report.SpecReports...)
	}
	return specs, nil
}

func resultOf(spec types.SpecReport) Result {
	result := Result{Test: spec.FullText(), Seconds: spec.RunTime.Seconds()}
	switch {
	case spec.State.Is(types.SpecStatePassed):
		result.Verdict = Passed
	case spec.State.Is(types.SpecStateSkipped | types.SpecStatePending):
		result.Verdict, result.Why = NotRun, firstLine(spec.Failure.Message)
	default:
		result.Verdict, result.Why = Failed, firstLine(spec.Failure.Message)
	}
	return result
}

// reasonLength is the maximum length of a recorded reason, in characters.
const reasonLength = 300

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > reasonLength {
		line = string(runes[:reasonLength]) + "…"
	}
	return line
}

func lastLine(output string, err error) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	last := firstLine(lines[len(lines)-1])
	if err != nil {
		last = strings.TrimSpace(err.Error() + ": " + last)
	}
	return last
}
