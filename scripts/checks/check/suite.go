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
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/protocol"
	"lva.io/operators/scripts/freezer"
	"lva.io/operators/scripts/manifest"
	"lva.io/operators/scripts/report"
)

// Features are the checks of a lab: the id in labs.yaml, and the code.
type Features map[string]types.Feature

// Suite is one grading run of a lab's checks.
type Suite struct {
	Lab *manifest.Lab
	// Config is an administrator's access to the cluster.
	Config *rest.Config
	// Audit is the API server's audit log.
	Audit *audit.Log
	// Operator stops and starts the operator, Faults lets things go wrong for it, Submission reads its files. In a lab
	// without an operator each call is an error.
	Operator   Operator
	Faults     Faults
	Submission Submission
	// Freezer is the freezer, past all faults. Nil in a lab without one.
	Freezer *freezer.Client
	// Seed is where all that is random in this run comes from.
	Seed uint32
	// Lag says how long it takes at present until a watch tells of a change: how busy the machine is. Options.Prepare
	// may set it.
	Lag func() time.Duration

	operatorUser string
	torture      *int
	environment  env.Environment
	events       *json.Encoder
	statuses     map[string]report.Status
}

// Options are what a lab's checks need besides the features.
type Options struct {
	// Prepare runs once before the first check and returns the context of all of them.
	Prepare func(context.Context, *Suite) (context.Context, error)
	// CleanUp runs after each check, whatever came of it, so that the next begins with an empty cluster.
	CleanUp func(context.Context) error
	// Scenario is the lab in one short story: it makes, changes and deletes things, waits until all is right, and fails
	// when something is not. It must hold whatever goes wrong meanwhile: see Torture and BadDay.
	Scenario Scenario
	// Writes and Reads are about how many requests the operator needs for the scenario on a good day, to all services
	// together: among them random faults are put. They are stated rather than counted, since the count differs from day to
	// day, and a seed has to make the same schedules each time.
	Writes, Reads int
}

// Run runs the checks of the lab in whose folder the test stands. The grader calls it with a run; without one it checks
// that labs.yaml and the code agree.
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
	if options.Prepare != nil {
		if ctx, err = options.Prepare(ctx, suite); err != nil {
			t.Fatal(err)
		}
	}
	if suite.torture != nil {
		suite.tortureLab(ctx, t, options, *suite.torture)
		return
	}
	for _, listed := range suite.Lab.Checks {
		feature, ok := features[listed.ID]
		if !ok {
			t.Fatalf("labs.yaml lists the check %s, which has no code in %s", listed.ID, suite.Lab.Name)
		}
		t.Run(listed.ID, func(t *testing.T) {
			suite.run(ctx, t, listed, feature)
		})
		if options.CleanUp != nil {
			if err := options.CleanUp(ctx); err != nil {
				t.Fatalf("cleaning up after %s: %v", listed.ID, err)
			}
		}
	}
}

// agree is the test of the checks that needs no cluster: one list, one code.
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
	config.QPS, config.Burst = -1, -1 // a burst of requests is one of the things that we test
	log, err := audit.Open(ctx, run.AuditLog)
	if err != nil {
		return nil, err
	}
	if run.AuditLate {
		mark, err := audit.Marker(config)
		if err != nil {
			return nil, err
		}
		log.ComesLate(mark)
	}
	suite := &Suite{
		Lab: &run.Lab, Config: config, Audit: log, Seed: run.Seed, operatorUser: run.OperatorUser, torture: run.Torture,
		environment: env.NewWithConfig(envconf.New().WithKubeconfigFile(run.Kubeconfig)),
		events:      json.NewEncoder(os.NewFile(protocol.EventsDescriptor, "events")),
		statuses:    map[string]report.Status{},
	}
	if run.Control != "" {
		grader := newGrader(run.Control)
		suite.Operator, suite.Faults, suite.Submission = Operator{grader}, Faults{grader}, Submission{grader}
	}
	if run.Freezer != "" {
		suite.Freezer = freezer.NewClient(run.Freezer)
	}
	return suite, nil
}

// run runs one check and tells the grader.
func (s *Suite) run(ctx context.Context, t *testing.T, listed manifest.Check, feature types.Feature) {
	t.Helper()
	if reason := s.Lab.Blocked(listed.ID, s.statuses); reason != "" {
		s.statuses[listed.ID] = report.Skipped
		s.tell(t, protocol.Event{Check: listed.ID, Status: string(report.Skipped), Reason: reason})
		t.Skip(reason)
	}
	s.tell(t, protocol.Event{Check: listed.ID})
	check := &Check{Suite: s, ID: listed.ID, began: s.Audit.Now()}
	started := time.Now()
	// Nothing that goes wrong may count as passed, whatever the feature or the framework makes of it.
	status := report.Failed
	defer func() {
		event := protocol.Event{
			Check: listed.ID, Status: string(status), Seconds: time.Since(started).Seconds(), Measurements: check.measurements,
		}
		if status == report.Failed {
			if check.failure == nil {
				check.failure = &failure{expected: listed.Title, observed: "the check ended without a verdict"}
			}
			event.Expected, event.Observed, event.Evidence = check.failure.expected, check.failure.observed, check.failure.evidence
		}
		s.statuses[listed.ID] = status
		s.tell(t, event)
	}()
	passed := t.Run("feature", func(t *testing.T) {
		s.environment.WithContext(context.WithValue(ctx, checkKey{}, check)).Test(t, feature)
	})
	if passed && check.failure == nil && check.begun > 0 && check.begun == check.done {
		status = report.Passed
	}
}

func (s *Suite) tell(t *testing.T, event protocol.Event) {
	t.Helper()
	if err := s.events.Encode(event); err != nil {
		t.Fatal(fmt.Errorf("telling the grader: %w", err))
	}
}

// ByOperator matches all requests of the operator.
func (s *Suite) ByOperator() audit.Match { return audit.By(s.operatorUser) }

// OperatorRequests matches the operator's requests, but for its standing watches and its leader election, which go on
// when it has nothing to do.
func (s *Suite) OperatorRequests() audit.Match {
	return s.ByOperator().And(func(e audit.Event) bool {
		return !audit.Watching(e) && e.Resource != "leases" && e.Resource != "events"
	})
}
