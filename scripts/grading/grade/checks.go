// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// check runs the lab's checks and adds their results to the report. operator is nil in a lab without an operator.
func (r *run) check(ctx context.Context, s *subject, operator *operator) error {
	limit := r.Lab.TimeLimit.Duration
	if r.torture != nil {
		limit = r.torture.limit()
	}
	limit += time.Duration(max(0, r.Stories-1)) * storyLimit
	began := r.machine.now()
	ctx, cancel := r.machine.withTimeout(ctx, limit, &verdict{
		outcome: report.TimedOut, reason: fmt.Sprintf("the checks did not finish within %s", limit),
	})
	defer cancel()
	protocolRun := protocol.Run{
		Kubectl: r.Kubectl, Exchange: s.builder.Exchange(), Services: s.services,
		Seed: r.Seed, First: r.First, NotStarted: r.NotStarted, Stories: r.Stories, Rules: s.rules,
		Webhooks: s.webhooks,
	}
	r.report.Seed = r.Seed // a run without checks does not use it
	if s.injector != nil {
		protocolRun.AuditMark = s.injector.AuditMark()
	}
	if r.torture != nil {
		protocolRun.Torture, protocolRun.Scenes = &r.torture.random, r.Scenes
	}
	gone := make(chan *verdict)
	if operator != nil || s.delivery != nil {
		scripts := &scripts{subject: s, machine: r.machine, kubectl: r.Kubectl}
		defer scripts.close()
		socket, end, err := s.serveControl(scripts, operator)
		if err != nil {
			return err
		}
		defer end()
		protocolRun.Control = socket
		if operator != nil {
			protocolRun.Server = operator.serving()
			protocolRun.Extended, protocolRun.NotExtended = s.heldBack, r.notExtended(s, operator)
			gone = operator.gone
		}
	}
	results := &results{run: r, operator: operator, ended: sets.New[string]()}
	output, err := r.runChecks(ctx, s, protocolRun, gone, results.take)
	if err != nil && r.machine.wasCut() {
		r.starved = r.machine.now().since(began)
	}
	switch v, is := errors.AsType[*verdict](err); {
	case err == nil:
		return errors.Join(s.cluster.Failure(), results.complete(output))
	case errors.Is(err, errFirstFailure):
		return nil
	case is && v.outcome != report.Error:
		results.failRunning(v.reason)
		if results.endExtension(v.reason) {
			return s.cluster.Failure()
		}
	} // otherwise a user interrupted the run, or the grader or the machine failed, which is not the check's fault
	return err
}

// storyLimit is the time for one more story: ten times what it usually takes.
const storyLimit = 20 * time.Second

// runChecks runs the program of the checks for a run, until the program ends, the context does, or a verdict arrives
// on gone. It calls take with each event. It returns the program's output, for the case that the program did not do
// its work.
func (r *run) runChecks(
	ctx context.Context, s *subject, run protocol.Run, gone <-chan *verdict, take func(protocol.Event) error,
) (output *logTail, err error) {
	run.Lab, run.Kubeconfig, run.OperatorUser = *r.Lab, s.cluster.Kubeconfig, s.user()
	if err := r.passDelivery(s, &run); err != nil {
		return nil, err
	}
	run.AuditLog, run.AuditDelayed, run.NodeExpected = s.cluster.AuditLog, s.cluster.AuditDelayed, s.cluster.NodeExpected
	file := filepath.Join(s.builder.Scope.Dir, "run.json")
	content, err := json.Marshal(run)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, fmt.Errorf("writing the run for the checks: %w", err)
	}
	output = newLogTail()
	checks, events, err := r.startChecks(s, file, output)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	var followed error
	go func() { followed = follow(events, take); close(done) }()
	select {
	case <-done:
		if followed != nil {
			checks.Kill()
		}
		select {
		case <-checks.Done():
		case <-time.After(endGrace):
			checks.Kill()
		}
		select {
		case v := <-gone: // at the very end
			return output, v
		default:
			return output, followed
		}
	case v := <-gone:
		err = v
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	checks.Kill()
	<-done
	return output, err
}

func (r *run) startChecks(s *subject, file string, output *logTail) (*process.Process, *os.File, error) {
	events, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer write.Close()
	checks, err := s.builder.Scope.Start(process.Spec{
		Name: "the checks", Path: r.Checks, Args: []string{"-test.v", "-test.timeout=0"},
		// Checks that are killed leave temporary files here, which are removed with the run.
		Env:    append(os.Environ(), protocol.RunVariable+"="+file, "TMPDIR="+s.builder.Scope.Dir),
		Stdout: output, Stderr: output, Files: []*os.File{write},
	})
	if err != nil {
		events.Close()
		return nil, nil, err
	}
	return checks, events, nil
}

// follow passes on the checks' events until the checks have ended, even in the middle of an event. It has no size
// limit: the checks themselves limit whatever a submission can influence, and a trial's timeline has no limit that is
// known here.
func follow(events io.ReadCloser, take func(protocol.Event) error) error {
	defer events.Close()
	for decoder := json.NewDecoder(events); ; {
		var event protocol.Event
		err := decoder.Decode(&event)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the events of the checks: %w", err)
		}
		if err := take(event); err != nil {
			return err
		}
	}
}

// results adds the events of the checks to the report.
type results struct {
	*run
	operator *operator // nil if there is none
	// running is the check that began last, and logged the size of the operator's log at that time, in bytes. ended are
	// the checks that came to an end.
	running string
	logged  int64
	ended   sets.Set[string]
	// given is what the machine had supplied to the run when that check began.
	given supply
}

// take takes an event of the checks.
func (r *results) take(event protocol.Event) error {
	if event.Trial != nil {
		switch {
		case !event.Trial.Ended:
			r.given = r.machine.now()
		case !event.Trial.Passed && !event.Trial.Final:
			r.noteStarvation()
		}
		r.torture.take(event, r.operator)
		return nil
	}
	if event.Note != nil {
		r.report.Timeline = append(r.report.Timeline, report.Moment{
			At: event.Note.Time.Sub(r.report.Started).Seconds(), Seconds: event.Note.Seconds,
			Service: report.ServiceObjects, What: event.Note.What,
		})
		return nil
	}
	check := r.find(event.Check)
	if check == nil {
		return fmt.Errorf("the checks reported %q, which labs.yaml does not list", event.Check)
	}
	if event.Prevented != "" {
		return &verdict{outcome: report.Error, reason: event.Prevented}
	}
	if event.Status == "" {
		check.Reason, check.At = "skipped: the run ended while it ran", time.Since(r.report.Started).Seconds()
		r.running = check.ID
		r.logged = r.operator.logged()
		r.given = r.machine.now()
		r.View.CheckStarted(*check)
		return nil
	}
	takeResult(check, event)
	r.ended.Insert(check.ID)
	if check.Status == report.Failed {
		r.noteStarvation()
		check.Evidence = slices.Concat(r.operator.problems(r.logged), check.Evidence, r.operator.webhookPaths(event))
		if r.Lab.Aggregated {
			check.Evidence = append(check.Evidence, r.operator.serverLog(r.logged)...)
		}
	}
	r.View.CheckDone(*check)
	if check.Status == report.Failed && r.UntilFailed {
		return errFirstFailure
	}
	return nil
}

// noteStarvation records that the machine starved the run during the check that failed.
func (r *results) noteStarvation() {
	if given := r.machine.now().since(r.given); given.starved() || r.machine.wasCut() {
		r.starved = given
	}
}

// errFirstFailure ends a run that stops at the first failed check.
var errFirstFailure = errors.New("a check failed")

// takeResult copies the result of a check into the report.
func takeResult(check *report.Check, event protocol.Event) {
	check.Status, check.Seconds, check.Reason = report.Status(event.Status), event.Seconds, event.Reason
	check.Expected, check.Observed, check.Evidence = event.Expected, event.Observed, event.Evidence
	check.Measurements = event.Measurements
	if check.Status == report.Passed {
		check.Points = check.MaxPoints
	}
}

// endGrace is how long the checks may take to end after their last event.
const endGrace = 5 * time.Second

func (r *results) find(id string) *report.Check {
	for i := range r.report.Checks {
		if r.report.Checks[i].ID == id {
			return &r.report.Checks[i]
		}
	}
	return nil
}

// failRunning marks the check that was running when something went wrong as failed, because that check provoked it.
func (r *results) failRunning(observed string) {
	check := r.find(r.running)
	if check == nil || r.ended.Has(check.ID) {
		return
	}
	r.noteStarvation()
	check.Status, check.Reason = report.Failed, ""
	check.Expected, check.Observed = check.Title, observed
	check.Evidence = r.operator.problems(r.logged) // the report contains the end of its log anyway
	r.View.CheckDone(*check)
}

// complete returns an error unless every check came to an end: a check that was not run must not look like a check
// that was skipped.
func (r *results) complete(output *logTail) error {
	if r.torture != nil {
		return r.torture.complete(output)
	}
	for _, check := range r.report.Checks {
		if !r.ended.Has(check.ID) {
			return output.failure("the checks ended before " + check.ID)
		}
	}
	return nil
}

// failure is the error of checks that ended too early. Its reason contains the unusual lines of their output, and its
// diagnostics contain all lines.
func (l *logTail) failure(what string) error {
	all := strings.Split(strings.TrimSpace(l.String()), "\n")
	unusual := slices.DeleteFunc(slices.Clone(all), func(line string) bool { return routine.MatchString(line) })
	return &verdict{
		outcome:     report.Error,
		reason:      fmt.Sprintf("the grader itself failed: %s: %s", what, strings.TrimSpace(strings.Join(unusual, "; "))),
		diagnostics: []report.Diagnostic{{Message: strings.Join(all, "\n")}},
	}
}

// routine matches the lines of a test's output that do not explain a failure.
var routine = regexp.MustCompile(`^\s*(=== |--- |FAIL|PASS|ok\s|exit status |$)`)

// takeForbidden adds every request that the operator was refused to the report, with the marker that would allow it.
// The error is a verdict if the submission has filled the audit log.
func (r *run) takeForbidden(s *subject) error {
	// Without a time limit: a log that was not read to its end may lack the evidence of the checks that passed.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log, err := s.cluster.OpenAudit(ctx)
	if err != nil {
		return err
	}
	for _, right := range audit.ForbiddenRights(log.Since(0, log.By(s.user()))) {
		resource := right.Resource
		if resource == "" {
			resource = right.URL
		}
		r.report.Forbidden = append(r.report.Forbidden, report.Forbidden{
			Verb: strings.Join(right.Verbs, ";"), Group: right.Group, Resource: resource, Subresource: right.Subresource,
			Count: right.Count, Marker: right.Marker(),
		})
	}
	return s.auditError(log.Err(), log.MostlyBy)
}

// auditError returns the error that ended the reading of the audit log, or a verdict if the log is too long because of
// the submission: its operator, its scripts, or its requests without valid credentials, which have no user.
func (s *subject) auditError(err error, mostlyBy func(users ...string) bool) error {
	if _, long := errors.AsType[*limited.LongError](err); long && mostlyBy(s.user(), rescuerUser, "") {
		return &verdict{outcome: report.Flooded, reason: "it filled the API server's audit log: " +
			"look for requests that it sends over and over, or that are very large"}
	}
	return err
}

// logTail is the end of what the checks print.
type logTail struct{ *limited.Tail }

func newLogTail() *logTail { return &logTail{limited.NewTail(8 << 10)} }
