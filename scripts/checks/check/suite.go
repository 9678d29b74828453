// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// userAgent identifies the requests of checks in the audit log.
const userAgent = "operator-labs-checks"

// Features are the checks of a lab: the ID in labs.yaml, and the code.
type Features map[string]types.Feature

// Suite is one grading run of a lab's checks.
type Suite struct {
	Lab *manifest.Lab
	// Config is an administrator's access to the cluster.
	Config *rest.Config
	// Audit is the API server's audit log.
	Audit *audit.Log
	// Operator stops and starts the operator, Faults injects failures, and Submission reads the submission's files. In a
	// lab without an operator each call returns an error.
	Operator   Operator
	Faults     Faults
	Submission Submission
	// Image is the reference of the submission's image, which the nodes have. Manifests is the file with the result of its
	// config/default, in YAML. Both are set only in a lab whose checks deploy the submission: see package deployed.
	Image, Manifests string
	// Server describes a submission that is an API server itself. Its fields are empty in labs without one, and if the
	// grader can't know them.
	Server protocol.Server
	// Kubectl is the program that acts as kubectl if its first argument says so. Kubeconfig is an administrator's.
	Kubectl, Kubeconfig string
	// Shared is true if the cluster has other users.
	Shared bool
	// NodeExpected is true if a node will become Ready by itself, if none is yet.
	NodeExpected bool
	// Exchange is a folder that both the operator and the checks may write to. The operator can access few other folders.
	Exchange string
	// Services are the URLs of the lab's services by name. They are for checks, and requests to them meet no faults. The
	// map is empty in a lab whose checks deploy the submission.
	Services map[string]string
	// Extended is true if the submission has started the lab's extension.
	Extended bool
	// NotExtended is why the checks of the lab's extension can't test this submission. It is empty if they can, or if the
	// lab has no extension.
	NotExtended string
	// Seed is the source of all randomness in this run.
	Seed uint32
	// Stories is how many stories a story check plays, each from its own seed. 0 means one.
	Stories int
	// Lag returns how long it currently takes until a watch reports a change, which shows how busy the machine is.
	// Options.Prepare may set it.
	Lag func() time.Duration

	operatorUser string
	rules        audit.Rules // of the operator's role
	webhooks     []string    // the names of the submission's webhooks
	auditMark    string
	first        string // the check that runs before all others
	notStarted   []int  // the steps that the submission has not started
	torture      *int
	scenes       bool
	early        bool // only the preconditions are checked
	environment  env.Environment
	sending      sync.Mutex // of events
	events       *json.Encoder
	statuses     map[string]report.Status
	// spoiled describes what the operator did to make further checks impossible, and spoiledIn is the check that revealed
	// it.
	spoiled   *Failure
	spoiledIn string
}

// Options are the hooks and numbers that a lab's checks need besides the features.
type Options struct {
	// Prepare runs once before the first check and returns the context of all of them.
	Prepare func(context.Context, *Suite) (context.Context, error)
	// CleanUp runs after each check, whether it passed or not, so that the next one begins with an empty cluster.
	CleanUp func(context.Context) error
	// Scenario is the lab in one short story. It creates, changes and deletes objects, waits until the state is correct,
	// and fails otherwise. It must pass despite all injected failures: see Torture and BadDay.
	Scenario Scenario
	// Writes and Reads are approximate numbers of requests to all services that the operator needs for the scenario on a
	// good day. Random faults are placed among these requests. They are constants and not counted, because the count
	// differs from day to day, and a seed must always produce the same schedules.
	Writes, Reads int
	// Requests is how many writes the scenario itself sends, by Check.Sending, in a lab whose submission is an API server.
	// Such a server is killed around each of them and after each change of its folder, and its own writes and reads meet
	// no faults.
	Requests int
	// Scenes are played once each, besides the scenario, in a torture that asks for them. A scene is a story with one
	// fault at one moment that no schedule of the scenario reaches. It arms its fault itself: see Check.Arm.
	Scenes []Scene
}

// Scene is a story with its own fault.
type Scene struct {
	// Name describes the fault.
	Name string
	Play Scenario
}

// Run runs the checks of the lab in the folder of the test. The grader calls it with a run. Without one it checks that
// labs.yaml and the code agree.
func Run(t *testing.T, features Features, options Options) {
	t.Helper()
	file := os.Getenv(protocol.RunVariable)
	if file == "" {
		agree(t, features)
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	suite, err := open(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	if suite.early {
		suite.preconditions(ctx, t, features)
		return
	}
	if options.Prepare != nil {
		began := suite.Audit.Now()
		prepared, err := options.Prepare(ctx, suite)
		if err != nil {
			if suite.spoiled = suite.operatorFailure(err, 0, began); suite.spoiled == nil || suite.torture != nil {
				t.Fatal(err)
			}
		} else {
			ctx = prepared
		}
	}
	if suite.torture != nil {
		suite.tortureLab(ctx, t, options, *suite.torture)
		return
	}
	for _, listed := range suite.Lab.StartingWith(suite.first) {
		if listed.Precondition() {
			suite.statuses[listed.ID] = report.Passed // otherwise the run would have ended earlier
			continue
		}
		suite.check(ctx, t, listed, features, options.CleanUp)
	}
}

// preconditions checks the conditions that must hold before the operator is started.
func (s *Suite) preconditions(ctx context.Context, t *testing.T, features Features) {
	t.Helper()
	for _, listed := range s.Lab.Checks {
		if listed.Precondition() {
			s.check(ctx, t, listed, features, nil)
		}
	}
}

func (s *Suite) check(ctx context.Context, t *testing.T, listed manifest.Check, features Features,
	cleanUp func(context.Context) error,
) {
	t.Helper()
	feature, ok := features[listed.ID]
	if !ok {
		t.Fatalf("labs.yaml lists the check %s, which has no code in %s", listed.ID, s.Lab.Name)
	}
	t.Run(listed.ID, func(t *testing.T) { s.run(ctx, t, listed, feature, cleanUp) })
}

// agree tests without a cluster that labs.yaml and the code list the same checks.
func agree(t *testing.T, features Features) {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	all, err := manifest.Load(filepath.Join(folder, "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	lab, err := all.Lab(filepath.Base(folder))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, check := range lab.Checks {
		listed = append(listed, check.ID)
	}
	slices.Sort(listed)
	if coded := slices.Sorted(maps.Keys(features)); !slices.Equal(listed, coded) {
		t.Errorf("labs.yaml lists the checks %v, the code has %v", listed, coded)
	}
}

func open(ctx context.Context, file string) (*Suite, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the run: %w", err)
	}
	var run protocol.Run
	if err := json.Unmarshal(content, &run); err != nil {
		return nil, fmt.Errorf("reading the run: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", run.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the run: %w", err)
	}
	config.QPS, config.Burst = -1, -1 // bursts of requests are among the things that we test
	config.UserAgent = userAgent
	log, err := audit.Open(ctx, run.AuditLog)
	if err != nil {
		return nil, err
	}
	if run.AuditDelayed {
		mark, err := audit.Marker(config)
		if err != nil {
			return nil, err
		}
		log.SetDelayed(mark)
	}
	suite := &Suite{
		Lab: &run.Lab, Image: run.Image, Manifests: run.Manifests, Server: run.Server, Kubectl: run.Kubectl,
		Kubeconfig: run.Kubeconfig, Shared: run.Shared, Exchange: run.Exchange, NodeExpected: run.NodeExpected,
		Extended: run.Extended, NotExtended: run.NotExtended,
		Config: config, Audit: log, Seed: run.Seed, Stories: run.Stories,
		operatorUser: run.OperatorUser, rules: run.Rules, webhooks: run.Webhooks,
		first: run.First, notStarted: run.NotStarted,
		auditMark: run.AuditMark, torture: run.Torture, scenes: run.Scenes, early: run.Preconditions,
		Services:    run.Services,
		environment: env.NewWithConfig(envconf.New().WithKubeconfigFile(run.Kubeconfig)),
		events:      json.NewEncoder(os.NewFile(protocol.EventsDescriptor, "events")),
		statuses:    map[string]report.Status{},
	}
	if run.Control != "" {
		grader := newGrader(run.Control)
		suite.Submission = Submission{grader}
		if run.Image == "" { // otherwise the checks themselves start and stop it
			suite.Operator, suite.Faults = Operator{grader}, Faults{grader}
		}
	}
	return suite, nil
}

// run runs one check, cleans up after it, and reports to the grader.
func (s *Suite) run(ctx context.Context, t *testing.T, listed manifest.Check, feature types.Feature,
	cleanUp func(context.Context) error,
) {
	t.Helper()
	reason := blocked(s.Lab, listed.ID, s.statuses)
	if listed.Extension && s.NotExtended != "" {
		reason = "skipped: " + s.NotExtended
	}
	explains := mayExplain(s.Lab, listed.ID, s.statuses)
	if s.spoiledIn != "" {
		reason = fmt.Sprintf("skipped: it needs a cluster that can be cleaned up, and after %s it could not be", s.spoiledIn)
		explains = false
	}
	if reason != "" && !explains {
		s.statuses[listed.ID] = report.Skipped
		s.report(t, protocol.Event{Check: listed.ID, Status: string(report.Skipped), Reason: reason})
		t.Skip(reason)
	}
	s.report(t, protocol.Event{Check: listed.ID})
	check := &Check{Suite: s, ID: listed.ID, began: s.Audit.Now(), notStarted: slices.Contains(s.notStarted, listed.Step)}
	started := time.Now()
	check.started = started
	check.used, _ = s.Operator.usage(ctx) // a lab without an operator has no usage
	// Nothing that fails may count as passed, however the feature or the framework handles it.
	status := report.Failed
	defer func() {
		if check.aborted {
			return // the grader detects this
		}
		if check.prevented != "" {
			s.report(t, protocol.Event{Check: listed.ID, Prevented: check.prevented})
			return
		}
		event := protocol.Event{
			Check: listed.ID, Status: string(status), Seconds: time.Since(started).Seconds(), Measurements: check.measurements,
		}
		switch status {
		case report.Passed:
		case report.Skipped:
			event.Seconds, event.Reason = 0, reason
		case report.Failed:
			if check.failure == nil {
				check.failure = &Failure{Expected: listed.Title, Observed: "the check ended without a verdict"}
			}
			event.Expected, event.Observed, event.Evidence =
				check.failure.Expected, check.failure.Observed, check.failure.Evidence
			event.FailedOpen = check.failure.FailedOpen
			if check.notStarted {
				event.Evidence = append([]string{fmt.Sprintf("each `TODO(lab): %d.` is as it was, "+
					"so nothing was waited for longer than %s", listed.Step, notStartedPatience)}, event.Evidence...)
			}
		}
		s.statuses[listed.ID] = status
		s.report(t, event)
	}()
	passed := false
	if s.spoiled == nil {
		passed = t.Run("feature", func(t *testing.T) {
			s.environment.WithContext(context.WithValue(ctx, checkKey{}, check)).Test(t, feature)
		})
		if cleanUp != nil {
			trying := s.Audit.Now()
			if err := cleanUp(ctx); err != nil {
				if s.spoiled = s.operatorFailure(err, check.began, trying); s.spoiled == nil {
					check.aborted = true
					t.Fatalf("cleaning up after %s: %v", listed.ID, err)
				}
			}
		}
	}
	if s.spoiled != nil {
		s.spoiledIn = listed.ID
		if check.failure == nil {
			check.failure = s.spoiled
		}
		return
	}
	if passed && check.failure == nil && check.skipped != "" {
		status, reason = report.Skipped, check.skipped
		return
	}
	if passed && check.failure == nil && check.startedSteps > 0 && check.startedSteps == check.doneSteps {
		check.failure = s.bypassed(check.began)
		switch {
		case check.failure != nil:
		case reason != "":
			status = report.Skipped // it ran to find the cause of another failure, and found none
		default:
			status = report.Passed
		}
	}
}

// bypassed returns the failure of an operator that has reached the API server without going through the proxy that
// injects faults. Nil: it has not.
func (s *Suite) bypassed(since audit.Mark) *Failure {
	if s.auditMark == "" {
		return nil
	}
	around := s.Audit.Since(since, s.ByOperator().And(audit.Around(s.auditMark)))
	if len(around) == 0 {
		return nil
	}
	return &Failure{
		Expected: "the operator talks to the API server at the address in its kubeconfig, " +
			"where conflicts and lost answers are tried",
		Observed: fmt.Sprintf("%d requests of the operator, or of accounts that it has made, "+
			"reached the API server by another way", len(around)),
		Evidence: lastLines(around),
	}
}

func (s *Suite) report(t *testing.T, event protocol.Event) {
	t.Helper()
	if err := s.send(event); err != nil {
		t.Fatal(fmt.Errorf("telling the grader: %w", err))
	}
}

// send sends an event to the grader, cut to what a report keeps: an observation may contain a submission's text of any
// length. Watches send notes while a check runs.
func (s *Suite) send(event protocol.Event) error {
	kept := report.Check{
		Reason: event.Reason, Expected: event.Expected, Observed: event.Observed, Evidence: event.Evidence,
		Measurements: event.Measurements,
	}
	kept.Sanitize()
	event.Reason, event.Expected, event.Observed = kept.Reason, kept.Expected, kept.Observed
	event.Evidence, event.Measurements = kept.Evidence, kept.Measurements
	if event.Note != nil {
		event.Note = &protocol.Note{Time: event.Note.Time, Seconds: event.Note.Seconds, What: report.OneLine(event.Note.What)}
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.events.Encode(event)
}

// Note adds an observation of an object to the report's timeline, in its own lane. The text begins with the object's
// kind and name, as in "Certificate serving-cert is Ready". took is 0 for an event without a duration. A note does not
// affect the verdict, and Note may be called from any goroutine until the checks have ended.
func (s *Suite) Note(at time.Time, took time.Duration, what string) {
	// A grader that has ended needs no notes.
	_ = s.send(protocol.Event{Note: &protocol.Note{Time: at, Seconds: took.Seconds(), What: what}})
}

// OperatorUser returns the API server's name for the operator's account. It is empty in a lab without an operator.
func (s *Suite) OperatorUser() string { return s.operatorUser }

// ByOperator matches all requests of the operator, whichever account it uses.
func (s *Suite) ByOperator() audit.Match { return s.Audit.By(s.operatorUser) }

// NoEventOfOthers matches all requests except writes of Events about other objects. An event recorder writes in the
// background, so on a busy machine such an Event may be about something that happened long before. An Event is named
// after its object. If the API server generates the name, the object is unknown.
func NoEventOfOthers(objects ...string) audit.Match {
	return func(e audit.Event) bool {
		about := func(object string) bool { return strings.HasPrefix(e.Name, object+".") }
		return e.Resource != "events" || e.Name == "" || slices.ContainsFunc(objects, about)
	}
}

// OperatorRequests matches the operator's requests, except its long-running watches and its leader election, which
// continue while it has nothing to do.
func (s *Suite) OperatorRequests() audit.Match {
	return s.ByOperator().And(func(e audit.Event) bool {
		return !audit.Watching(e) && e.Resource != "leases" && e.Resource != "events"
	})
}
