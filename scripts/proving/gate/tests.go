// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// testEvent is an event of `go test -json`. Elapsed is in seconds.
type testEvent struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// eachTestEvent reads events of `go test -json`.
func eachTestEvent(events io.Reader, take func(testEvent)) error {
	for decoder := json.NewDecoder(events); ; {
		var event testEvent
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading the results of the tests: %w", err)
		}
		take(event)
	}
}

// Tests are the results of the tests of a module.
type Tests struct {
	// Passed and Skipped count tests and their parts.
	Passed, Skipped int
	// Failed are the failed tests, without those that failed only because of a subtest. It also has packages that failed
	// although no test did, because they left a process or a folder behind, or do not compile. Flaky are the tests that
	// failed and then passed.
	Failed, Flaky []Flaky
}

// ReadTests reads the events of `go test -json`. A repeated test occurs several times in them.
func ReadTests(events io.Reader) (*Tests, error) {
	type test struct{ pkg, name string }
	type history struct {
		last           string // its last action
		now, outFailed strings.Builder
		failures       int
	}
	var order []test
	all := map[test]*history{}
	err := eachTestEvent(events, func(event testEvent) {
		t := test{event.Package, event.Test}
		if all[t] == nil {
			all[t] = &history{}
			order = append(order, t)
		}
		h := all[t]
		switch event.Action {
		case "output":
			h.now.WriteString(event.Output)
		case "fail":
			h.failures++
			h.outFailed.WriteString(h.now.String())
			h.now.Reset()
			h.last = event.Action
		case "pass", "skip":
			h.now.Reset()
			h.last = event.Action
		}
	})
	if err != nil {
		return nil, err
	}
	// explained reports whether a part of a test or package failed as well. If the part passed when it was repeated and
	// the package did not, the package has left something behind.
	explained := func(t test) bool {
		return slices.ContainsFunc(order, func(part test) bool {
			isSubtest := t.name == "" && part.name != "" || t.name != "" && strings.HasPrefix(part.name, t.name+"/")
			if !isSubtest || part.pkg != t.pkg {
				return false
			}
			ended := all[part].last
			return ended == "fail" || ended == "" || all[part].failures > 0 && all[t].last == "pass"
		})
	}
	ended := &Tests{}
	for _, t := range order {
		h := all[t]
		failure := Flaky{Name: strings.TrimSpace(t.pkg + " " + t.name), Output: h.outFailed.String() + h.now.String()}
		switch {
		case t.name != "" && h.last == "pass":
			ended.Passed++
		case t.name != "" && h.last == "skip":
			ended.Skipped++
		}
		switch {
		// It passed, or a failed part explains its failure.
		case h.failures == 0 && (h.last != "" || t.name == ""), explained(t):
		case h.last == "pass" && t.name != "":
			ended.Flaky = append(ended.Flaky, failure)
		default:
			ended.Failed = append(ended.Failed, failure)
		}
	}
	return ended, nil
}
