// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package conformance

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"lva.io/operators/clusters/images"
)

// etcdImage is the prefix of references to etcd's image.
const etcdImage = "registry.k8s.io/etcd:"

// Images returns the images that the tests run.
func Images() ([]images.Image, error) {
	catalogue, err := images.Load()
	if err != nil {
		return nil, err
	}
	wanted := catalogue.Set("conformance")
	for _, image := range catalogue.Images {
		if strings.HasPrefix(image.Reference, etcdImage) { // for the API server that a test aggregates
			wanted = append(wanted, image)
		}
	}
	return wanted, nil
}

// Selection selects tests. Default: all.
type Selection struct {
	// Focus is a regular expression for the names of the tests, and Sample selects the tests of the sample.
	Focus  string
	Sample bool
	// Again selects only those that have not passed in earlier runs.
	Again bool
}

// Choose returns the selected tests.
func (s Selection) Choose(all []Test, known *Known, ledger *Ledger) (chosen []Test, err error) {
	chosen = all
	switch {
	case s.Sample:
		chosen = known.Sampled()
	case s.Focus != "":
		if chosen, err = Focus(all, s.Focus); err != nil {
			return nil, err
		}
	}
	if s.Again {
		chosen = ledger.Remaining(chosen)
	}
	return chosen, nil
}

// Record runs the tests, and prints and records their results. It returns how many failed for an unknown reason.
func (r Run) Record(ctx context.Context, known *Known, ledger *Ledger, out io.Writer) (failed int, err error) {
	var results []Result
	fmt.Fprintf(out, "%d tests, %d at a time. Each test prints a line when it ends.\n", len(r.Tests), r.Parallel)
	started := time.Now()
	r.Ended = func(result Result) error {
		result, expected := known.Explain(result)
		if !expected {
			failed++
		}
		results = append(results, result)
		left := time.Since(started) / time.Duration(len(results)) * time.Duration(len(r.Tests)-len(results))
		line := fmt.Sprintf("%d of %d, %s left: %-7s %s (%.0f s)",
			len(results), len(r.Tests), left.Round(time.Second), result.Verdict, result.Test, result.Seconds)
		fmt.Fprintln(out, strings.TrimSuffix(line+": "+result.Why, ": "))
		return ledger.Record(result)
	}
	err = r.Do(ctx)
	fmt.Fprintln(out, Summary(results))
	return failed, err
}

// Explain records the currently known reasons for the results of earlier runs, and those for which tests can't run.
func (l *Ledger) Explain(all []Test, known *Known) error {
	_, impossible := known.Possible(all)
	for _, result := range append(l.Results(), impossible...) {
		result, _ := known.Explain(result)
		if err := l.Record(result); err != nil {
			return err
		}
	}
	return nil
}
