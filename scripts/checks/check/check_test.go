// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/protocol"
	"lva.io/operators/scripts/faults"
	"lva.io/operators/scripts/manifest"
)

const (
	// suiteVariable makes this test binary the checks of a lab: it names the suite below that is run.
	suiteVariable = "CHECK_TEST_SUITE"
	// patience is check's: how long an operator may do nothing while something is awaited of it.
	patience = 3 * time.Second
	operator = "system:serviceaccount:operator-system:controller-manager"
)

type step = func(context.Context, *testing.T, *check.Check)

// suites are what the tests below run as a process of its own, as the grader does: id of the check and its steps.
var suites = map[string]check.Features{
	"verdicts": {
		"passes":   feature(passes, passes),
		"fails":    feature(fails, passes),
		"needs-it": feature(passes),
		"and-that": feature(passes),
		"empty":    features.New("nothing is assessed").Feature(),
		"skips":    feature(skips),
		"half":     feature(passes, skips),
		"errs":     feature(func(_ context.Context, t *testing.T, _ *check.Check) { t.Helper(); t.Error("wrong") }),
		"fatal":    feature(func(_ context.Context, t *testing.T, _ *check.Check) { t.Helper(); t.FailNow() }),
		"teardown": features.New("x").Assess("x", check.Assess(passes)).
			Teardown(check.Teardown(func(context.Context, *check.Check) error { return errors.New("no") })).Feature(),
		"restores": features.New("x").Assess("x", check.Assess(fails)).
			Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Operator.Start(ctx) })).Feature(),
		"last": feature(passes),
	},
	"panics": {
		"panics": feature(func(context.Context, *testing.T, *check.Check) { panic("a mistake of ours") }),
		"last":   feature(passes),
	},
	"evidence": {
		"silent": feature(fails),
		"busy": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "stopping", c.Operator.Stop(ctx)) // the test's grader logs ten requests
			fails(ctx, t, c)
		}),
		"own": feature(func(_ context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.Fail(t, "it is right", "it is wrong", "seen by me")
		}),
		"request": feature(func(_ context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			c.OK(t, "creating an icecream", nil)
			c.OK(t, "creating an icecream", errors.New("the API server is gone"))
		}),
	},
	"eventually": {"eventually": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		began := time.Now()
		c.Eventually(ctx, t, "the shop opens", never, func() (string, bool) {
			return "the shop is closed", time.Since(began) > 2*patience
		})
	})},
	"settle": {"settle": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		if !c.Settle(ctx, t) {
			c.Fail(t, "it settles", "it does not")
		}
	})},
	"operator": {"operator": feature(func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		err := errors.Join(c.Operator.Stop(ctx), c.Operator.Start(ctx), c.Operator.Kill(ctx))
		c.Fail(t, "it is stopped, started and killed", fmt.Sprint(err), "none")
	})},
}

func feature(steps ...step) types.Feature {
	builder := features.New("a feature")
	for i, step := range steps {
		builder.Assess(fmt.Sprintf("step %d", i+1), check.Assess(step))
	}
	return builder.Feature()
}

func passes(context.Context, *testing.T, *check.Check) {}

func fails(_ context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	c.Fail(t, "it is right", "it is wrong")
}

func skips(_ context.Context, t *testing.T, _ *check.Check) {
	t.Helper()
	t.Skip("not today")
}

func never() <-chan struct{} { return nil }

// TestSuite is not a test: it is the checks of a lab while one of the tests below is the grader.
func TestSuite(t *testing.T) {
	name := os.Getenv(suiteVariable)
	switch name {
	case "":
		t.Skip("the other tests run it")
	case "agree", "missing", "unlisted":
		check.Run(t, ofLabOne(t, name), check.Options{})
	default:
		check.Run(t, suites[name], check.Options{})
	}
}

// ofLabOne are checks named as those of lab 01, or nearly.
func ofLabOne(t *testing.T, how string) check.Features {
	t.Helper()
	list, err := manifest.Load("../../..")
	if err != nil {
		t.Fatal(err)
	}
	all := check.Features{}
	for _, listed := range list.Labs[0].Checks {
		all[listed.ID] = feature(passes)
	}
	switch how {
	case "missing":
		delete(all, "columns")
	case "unlisted":
		all["sprinkles"] = feature(passes)
	}
	return all
}

// run is a run of a suite.
type run struct {
	t      *testing.T
	events []protocol.Event
	output string
	err    error
	took   time.Duration
}

// grader plays the grader for a suite: it has an audit log, and a socket on which the operator is stopped and started.
type grader struct {
	t     *testing.T
	audit string

	mutex sync.Mutex
	asked []string
	// stop is called when the suite stops the operator.
	stop func() error
}

func newGrader(t *testing.T) *grader {
	t.Helper()
	g := &grader{t: t, audit: filepath.Join(t.TempDir(), "audit.log")}
	g.write(t, g.audit, "")
	return g
}

func (g *grader) write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// log appends requests of a user to the audit log.
func (g *grader) log(user, verb string, count int) error {
	file, err := os.OpenFile(g.audit, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	for n := range count {
		fmt.Fprintf(file, `{"verb":%q,"user":{"username":%q},"objectRef":{"resource":"icecreams","name":"sundae-%d"},`+
			`"responseStatus":{"code":200},"requestReceivedTimestamp":%q}`+"\n",
			verb, user, n+1, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	return nil
}

// logEvery logs a request of a user again and again, until the test ends.
func (g *grader) logEvery(interval time.Duration, user, verb string) {
	ticker := time.NewTicker(interval)
	var group sync.WaitGroup
	end := make(chan struct{})
	group.Go(func() {
		for {
			select {
			case <-ticker.C:
				if err := g.log(user, verb, 1); err != nil {
					g.t.Error(err)
				}
			case <-end:
				return
			}
		}
	})
	g.t.Cleanup(func() { ticker.Stop(); close(end); group.Wait() })
}

func (g *grader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	switch r.URL.Path {
	case protocol.LastAction:
		_ = json.NewEncoder(w).Encode(time.Time{})
		return
	case protocol.FaultLog:
		_ = json.NewEncoder(w).Encode([]faults.Entry{})
		return
	}
	g.asked = append(g.asked, r.Method+" "+r.URL.Path)
	if r.URL.Path == protocol.StopOperator && g.stop != nil {
		if err := g.stop(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// run runs a suite with these checks listed in labs.yaml: "id" or "id<need".
func (g *grader) run(suite string, listed ...string) run {
	g.t.Helper()
	dir := g.t.TempDir()
	lab := manifest.Lab{Name: "01-shop"}
	for _, name := range listed {
		id, need, _ := strings.Cut(name, "<")
		lab.Checks = append(lab.Checks, manifest.Check{ID: id, Title: "the title of " + id, Points: 10})
		if need != "" {
			lab.Checks[len(lab.Checks)-1].Needs = []string{need}
		}
	}
	socket := filepath.Join(dir, "control")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		g.t.Fatal(err)
	}
	server := &http.Server{Handler: g}
	go func() { _ = server.Serve(listener) }() // ends with Close
	g.t.Cleanup(func() { server.Close() })
	kubeconfig := filepath.Join(dir, "kubeconfig")
	g.write(g.t, kubeconfig, `{"clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1"}}],`+
		`"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`)
	content, err := json.Marshal(protocol.Run{
		Lab: lab, Kubeconfig: kubeconfig, AuditLog: g.audit, OperatorUser: operator, Control: socket,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	file := filepath.Join(dir, "run.json")
	g.write(g.t, file, string(content))
	return start(g.t, ".", suiteVariable+"="+suite, protocol.RunVariable+"="+file)
}

// start runs TestSuite in a process of its own, in a folder, and reads its events.
func start(t *testing.T, dir string, variables ...string) run {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var output strings.Builder
	command := exec.CommandContext(t.Context(), program, "-test.run=^TestSuite$", "-test.v")
	command.Dir, command.Env, command.ExtraFiles = dir, append(os.Environ(), variables...), []*os.File{write}
	command.Stdout, command.Stderr = &output, &output
	r := run{t: t}
	began := time.Now()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		var event protocol.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("%q is no event: %v", lines.Text(), err)
		}
		r.events = append(r.events, event)
	}
	r.err, r.took, r.output = command.Wait(), time.Since(began), output.String()
	return r
}

// ended is the event that says how a check ended.
func (r run) ended(id string) protocol.Event {
	r.t.Helper()
	for _, event := range r.events {
		if event.Check == id && event.Status != "" {
			return event
		}
	}
	r.t.Fatalf("the check %s did not end; the checks said %+v and printed\n%s", id, r.events, r.output)
	return protocol.Event{}
}

func TestWhatCountsAsPassed(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	r := g.run("verdicts", "passes", "fails", "needs-it<fails", "and-that<needs-it", "empty", "skips", "half", "errs", "fatal",
		"teardown", "restores", "last<passes")
	for _, want := range []protocol.Event{
		{Check: "passes", Status: "passed"},
		{Check: "fails", Status: "failed", Expected: "it is right", Observed: "it is wrong"},
		{Check: "needs-it", Status: "skipped", Reason: "skipped: it needs fails, which failed"},
		{Check: "and-that", Status: "skipped", Reason: "skipped: it needs needs-it, which was skipped"},
		{Check: "empty", Status: "failed", Expected: "the title of empty", Observed: "the check ended without a verdict"},
		{Check: "skips", Status: "failed", Expected: "the title of skips", Observed: "the check ended without a verdict"},
		{Check: "half", Status: "failed", Expected: "the title of half", Observed: "the check ended without a verdict"},
		{Check: "errs", Status: "failed", Expected: "the title of errs", Observed: "the check ended without a verdict"},
		{Check: "fatal", Status: "failed", Expected: "the title of fatal", Observed: "the check ended without a verdict"},
		{Check: "teardown", Status: "failed", Expected: "the title of teardown", Observed: "the check ended without a verdict"},
		{Check: "restores", Status: "failed", Expected: "it is right", Observed: "it is wrong"},
		{Check: "last", Status: "passed"},
	} {
		got := r.ended(want.Check)
		if (got.Seconds > 0) == (want.Status == "skipped") {
			t.Errorf("%s took %g s", want.Check, got.Seconds)
		}
		if (len(got.Evidence) > 0) != (got.Observed == "it is wrong") {
			t.Errorf("the evidence of %s is %q", want.Check, got.Evidence)
		}
		got.Seconds, got.Evidence = 0, nil
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the event is\n%+v\nand must be\n%+v", got, want)
		}
	}
	if !slices.Equal(g.asked, []string{"POST " + protocol.StartOperator}) {
		t.Errorf("the check that failed must restore what later ones need; it asked for %v", g.asked)
	}
}

// A live view needs them one by one: what begins, then how it ended, in the order of labs.yaml.
func TestEachCheckBeginsAndEnds(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("verdicts", "last", "fails", "needs-it<fails", "passes")
	var got []string
	for _, event := range r.events {
		got = append(got, strings.TrimSuffix(event.Check+" "+event.Status, " "))
	}
	want := []string{"last", "last passed", "fails", "fails failed", "needs-it skipped", "passes", "passes passed"}
	if !slices.Equal(got, want) {
		t.Errorf("the events are %q and must be %q", got, want)
	}
}

// A panic ends the process: the grader then finds that the check never ended, and says so as an error of ours.
func TestAPanicIsNoVerdict(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("panics", "panics", "last")
	if len(r.events) != 1 || r.events[0].Check != "panics" || r.events[0].Status != "" {
		t.Errorf("the events are %+v", r.events)
	}
	if r.err == nil || !strings.Contains(r.output, "panic: a mistake of ours") {
		t.Errorf("it ended with %v and printed\n%s", r.err, r.output)
	}
}

func TestACheckWithoutCodeEndsTheRun(t *testing.T) {
	t.Parallel()
	r := newGrader(t).run("verdicts", "passes", "sprinkles", "last")
	if got := r.ended("passes"); len(r.events) != 2 || got.Status != "passed" {
		t.Errorf("the events are %+v", r.events)
	}
	if r.err == nil || !strings.Contains(r.output, "labs.yaml lists the check sprinkles, which has no code in 01-shop") {
		t.Errorf("it ended with %v and printed\n%s", r.err, r.output)
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	if err := g.log(operator, "update", 3); err != nil { // before the check: no evidence
		t.Fatal(err)
	}
	g.stop = func() error {
		return errors.Join(g.log("somebody", "delete", 1), g.log(operator, "watch", 1), g.log(operator, "update", 10))
	}
	r := g.run("evidence", "silent", "busy", "own", "request")
	if got := r.ended("silent").Evidence; !slices.Equal(got, []string{"the operator has sent no request since this check began"}) {
		t.Errorf("of a silent operator: %q", got)
	}
	got := r.ended("busy").Evidence
	if len(got) != 9 || got[0] != "(2 earlier requests)" || !strings.HasSuffix(got[8], " update icecreams sundae-10 → 200 OK") {
		t.Errorf("of an operator with ten requests: %q", got)
	}
	if got := r.ended("own").Evidence; !slices.Equal(got, []string{"seen by me"}) {
		t.Errorf("of a check that has its own: %q", got)
	}
	failed := r.ended("request")
	if failed.Expected != "creating an icecream works" || failed.Observed != "the API server is gone" {
		t.Errorf("of a request of ours: %+v", failed)
	}
}

func TestEventuallyGivesUpASilentOperator(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	// What others do, and the operator's standing watches, are no sign of life.
	g.logEvery(patience/6, "somebody", "update")
	g.logEvery(patience/6, operator, "watch")
	got := g.run("eventually", "eventually").ended("eventually")
	if got.Status != "failed" || got.Expected != "the shop opens" || got.Observed != "the shop is closed (and the operator has been silent for 3s)" {
		t.Errorf("it ended so: %+v", got)
	}
	if got.Seconds < patience.Seconds() || got.Seconds > 2*patience.Seconds() {
		t.Errorf("it waited for %g s", got.Seconds)
	}
}

func TestEventuallyWaitsForAnOperatorThatWorks(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	g.logEvery(patience/6, operator, "update")
	if got := g.run("eventually", "eventually").ended("eventually"); got.Status != "passed" || got.Seconds < 2*patience.Seconds() {
		t.Errorf("it ended so: %+v", got)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, user, verb, want string }{
		{"an operator that never stops", operator, "get", "failed"},
		{"an operator that only watches", operator, "watch", "passed"},
		{"somebody else who never stops", "somebody", "update", "passed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGrader(t)
			g.logEvery(25*time.Millisecond, test.user, test.verb)
			if got := g.run("settle", "settle").ended("settle"); got.Status != test.want {
				t.Errorf("it ended so: %+v", got)
			}
		})
	}
}

func TestTheOperatorIsStoppedAndStartedByTheGrader(t *testing.T) {
	t.Parallel()
	g := newGrader(t)
	if got := g.run("operator", "operator").ended("operator"); got.Observed != "<nil>" {
		t.Errorf("it was asked for, and failed: %s", got.Observed)
	}
	if want := []string{"POST /operator/stop", "POST /operator/start", "POST /operator/kill"}; !slices.Equal(g.asked, want) {
		t.Errorf("the grader was asked for %q, not %q", g.asked, want)
	}
	g.stop = func() error { return errors.New("it does not end") }
	if got := g.run("operator", "operator").ended("operator"); got.Observed != "asking the grader for /operator/stop: it does not end" {
		t.Errorf("the grader refused, and the error is %s", got.Observed)
	}
	var none check.Operator
	if err := none.Stop(t.Context()); !errors.Is(err, check.ErrNoOperator) {
		t.Errorf("a lab without an operator can't stop it: %v", err)
	}
}

func TestListAndCodeAgree(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		suite string
		fails bool
		want  string
	}{
		{"agree", false, "PASS"},
		{"missing", true, "labs.yaml lists the checks [columns "},
		{"unlisted", true, " sprinkles "},
	} {
		// It is found by the folder in which the test stands.
		r := start(t, "../01-icecream", suiteVariable+"="+test.suite)
		if (r.err != nil) != test.fails || !strings.Contains(r.output, test.want) {
			t.Errorf("%s: it ended with %v and printed\n%s", test.suite, r.err, r.output)
		}
	}
}
