// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package conformance

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
)

const (
	job    = "[sig-apps] Job should run a job (twice) [Conformance]"
	daemon = "[sig-apps] Daemon set [Serial] should run and stop simple daemon [Conformance]"
	nodes  = "[sig-architecture] Conformance Tests should have at least two untainted nodes [Conformance]"
	slow   = "[sig-apps] CronJob should not schedule jobs when suspended [Slow] [Conformance]"
)

var all = []Test{{job}, {daemon}, {nodes}, {slow}}

func TestParseTestName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		sig    string
		serial bool
	}{
		{job, "sig-apps", false},
		{daemon, "sig-apps", true},
		{nodes, "sig-architecture", false},
		{slow, "sig-apps", false},
		{
			"[sig-node] NoExecuteTaintManager Single Pod [Serial] removing taint cancels eviction [Disruptive] [Conformance]",
			"sig-node", true,
		},
		{"Something without a group", "sig-unknown", false},
	} {
		if parsed := (Test{test.name}); parsed.SIG() != test.sig || parsed.Serial() != test.serial {
			t.Errorf("%s: SIG() = %s, Serial() = %t", test.name, parsed.SIG(), parsed.Serial())
		}
	}
}

func TestFocus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expression string
		want       []Test
		err        string
	}{
		{"Job", []Test{{job}, {slow}}, ""},
		{"sig-network", nil, `no conformance test has a name that matches "sig-network"`},
		{"(", nil, "the focus is not a regular expression"},
	} {
		chosen, err := Focus(all, test.expression)
		if !slices.Equal(chosen, test.want) || test.err == "" && err != nil ||
			test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("Focus(%q) = %v, %v", test.expression, chosen, err)
		}
	}
}

// Ginkgo matches its focus against a test's file and name. Only the tests of a batch may match, whatever characters are
// in their names.
func TestBatchRunsOnlyItsTests(t *testing.T) {
	t.Parallel()
	focus := regexp.MustCompile(focusOn([]Test{{job}, {daemon}}))
	for _, test := range all {
		if runs := focus.MatchString("test/e2e/apps/x.go " + test.Name); runs != (test.Name == job || test.Name == daemon) {
			t.Errorf("%s matches the focus: %t", test.Name, runs)
		}
	}
}

func TestSpecVerdicts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", reasonLength+1)
	for _, test := range []struct {
		state         types.SpecState
		message, want string
		verdict       Verdict
	}{
		{types.SpecStatePassed, "", "", Passed},
		{types.SpecStateFailed, "\nExpected\n  1\nto equal 2", "Expected", Failed},
		{types.SpecStateFailed, long, long[:len(long)-2] + "…", Failed},
		{types.SpecStateTimedout, "A suite timeout occurred", "A suite timeout occurred", Failed},
		{types.SpecStateInterrupted, "", "", Failed},
		{types.SpecStatePanicked, "Test panicked", "Test panicked", Failed},
		{types.SpecStateSkipped, "Requires at least 2 nodes (not 1)", "Requires at least 2 nodes (not 1)", NotRun},
	} {
		spec := types.SpecReport{
			ContainerHierarchyTexts: []string{"[sig-apps] Job"}, LeafNodeText: "should run [Conformance]", State: test.state,
		}
		spec.Failure.Message = test.message
		want := Result{Test: "[sig-apps] Job should run [Conformance]", Verdict: test.verdict, Why: test.want}
		if diff := cmp.Diff(want, resultOf(spec)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.state, diff)
		}
	}
}

func TestResultsAreKeptAndPublished(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "results.json")
	ledger, err := OpenLedger(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range []Result{
		{job, Failed, "it did not end", 7},
		{nodes, NotRun, "there is one", 0},
		{job, Passed, "", 3},
		{daemon, Failed, "no daemon", 9},
	} {
		if err := ledger.Record(result); err != nil {
			t.Fatal(err)
		}
	}
	if ledger, err = OpenLedger(file); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Result{
		{daemon, Failed, "no daemon", 9}, {job, Passed, "", 3}, {nodes, NotRun, "there is one", 0},
	}, ledger.Results()); diff != "" {
		t.Errorf("recorded results (-want +got)\n%s", diff)
	}
	if left := ledger.Remaining(all); !slices.Equal(left, []Test{{daemon}, {nodes}, {slow}}) {
		t.Errorf("Remaining() = %v", left)
	}
	if err := ledger.Publish(root); err == nil {
		t.Error("Publish() succeeded without a folder for the documents")
	}
	if diff := cmp.Diff([]Figures{{"sig-apps", 1, 1, 0}, {"sig-architecture", 0, 0, 1}},
		Count(ledger.Results())); diff != "" {
		t.Errorf("counted results (-want +got)\n%s", diff)
	}
	if summary := Summary(ledger.Results()); summary != "1 of 3 passed, 1 failed, 1 were not run" {
		t.Errorf("Summary() = %q", summary)
	}
}

func TestLoadKnown(t *testing.T) {
	t.Parallel()
	const file = `sample: ["` + job + `"]
impossible: [{tests: two untainted, reason: There is one node.}]
failing: [{tests: simple daemon, reason: Daemons are hard.}]
`
	for _, test := range []struct{ name, find, replace, err string }{
		{"in order", "", "", ""},
		{"a test in the sample that no longer exists", "run a job", "run no job", "there is no conformance test"},
		{
			"a reason that matches no test", "two untainted", "three untainted",
			`no conformance test has a name that matches "three untainted"`,
		},
		{"no reason", "Daemons are hard.", `""`, `"simple daemon" has no reason`},
		{"no expression", "simple daemon", `"("`, "is not a regular expression"},
		{"an unknown field", "failing:", "falling:", "unknown field"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			known, err := readKnown([]byte(strings.Replace(file, test.find, test.replace, 1)), all)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got error %v, want it to contain %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			possible, impossible := known.Possible(all)
			if !slices.Equal(possible, []Test{{job}, {daemon}, {slow}}) ||
				!slices.Equal(impossible, []Result{{Test: nodes, Verdict: NotRun, Why: "There is one node."}}) {
				t.Errorf("Possible() = %v, %v", possible, impossible)
			}
			if explained, expected := known.Explain(Result{Test: daemon, Verdict: Failed, Why: "timed out"}); !expected ||
				explained.Why != "Daemons are hard." {
				t.Errorf("Explain() = %v, %t", explained, expected)
			}
			if _, expected := known.Explain(Result{Test: job, Verdict: Failed, Why: "timed out"}); expected {
				t.Error("Explain() expects a failure without a known reason")
			}
			if !slices.Equal(known.Sampled(), []Test{{job}}) {
				t.Errorf("Sampled() = %v", known.Sampled())
			}
		})
	}
}
