// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/protocol"
	"lva.io/operators/scripts/report"
)

// check runs the lab's checks and takes their results into the report. operator is nil in a lab that runs none.
func (r *run) check(ctx context.Context, operator *operator) error {
	limit := r.Lab.TimeLimit.Duration
	if r.torture != nil {
		limit = tortureLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &verdict{
		outcome: report.TimedOut, reason: fmt.Sprintf("the checks were not done within %s", limit),
	})
	defer cancel()
	dir := r.workshop.Scope.Dir
	protocolRun := protocol.Run{
		Lab: *r.Lab, Kubeconfig: r.cluster.Kubeconfig, AuditLog: r.cluster.AuditLog, AuditLate: r.cluster.AuditLate, OperatorUser: r.user,
		Freezer: r.freezer, Seed: r.Seed,
	}
	if r.torture != nil {
		protocolRun.Torture = &r.torture.random
	}
	gone := make(chan *verdict)
	if operator != nil {
		socket, end, err := operator.control()
		if err != nil {
			return err
		}
		defer end()
		protocolRun.Control, gone = socket, operator.gone
	}
	file := filepath.Join(dir, "run.json")
	content, err := json.Marshal(protocolRun)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("writing the run for the checks: %w", err)
	}
	output := &logTail{}
	checks, events, err := r.startChecks(file, output)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	var followed error
	go func() { followed = r.follow(events); close(done) }()
	select {
	case <-done:
		select {
		case <-checks.Done():
		case <-time.After(endGrace):
			checks.Kill()
		}
		err = followed
		if err == nil {
			err = r.complete(output)
		}
		select {
		case v := <-gone: // at the very end
			err = v
		default:
		}
	case v := <-gone:
		checks.Kill()
		<-done
		r.failRunning(v.reason, operator.lastWords())
		err = v
	case <-ctx.Done():
		checks.Kill()
		<-done
		err = context.Cause(ctx)
		if v := (*verdict)(nil); errors.As(err, &v) {
			r.failRunning(v.reason, nil)
		} // otherwise somebody interrupted the run: that says nothing of the check
	}
	return errors.Join(err, r.takeForbidden())
}

func (r *run) startChecks(file string, output *logTail) (*process.Process, *os.File, error) {
	events, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer write.Close()
	checks, err := r.workshop.Scope.Start(process.Spec{
		Name: "the checks", Path: r.Checks, Args: []string{"-test.v", "-test.timeout=0"},
		Env: append(os.Environ(), protocol.RunVariable+"="+file), Stdout: output, Stderr: output, Files: []*os.File{write},
	})
	if err != nil {
		events.Close()
		return nil, nil, err
	}
	return checks, events, nil
}

// follow takes the checks' events into the report until the checks have ended.
func (r *run) follow(events *os.File) error {
	defer events.Close()
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var event protocol.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return fmt.Errorf("reading what the checks say: %w", err)
		}
		if event.Trial != nil {
			r.torture.take(event)
			continue
		}
		check := r.find(event.Check)
		if check == nil {
			return fmt.Errorf("the checks speak of %q, which labs.yaml does not list", event.Check)
		}
		if event.Status == "" {
			check.Reason, check.At = running, time.Since(r.report.Started).Seconds()
			r.View.CheckStarted(*check)
			continue
		}
		check.Status, check.Seconds, check.Reason = report.Status(event.Status), event.Seconds, event.Reason
		check.Expected, check.Observed, check.Evidence = event.Expected, event.Observed, event.Evidence
		check.Measurements = event.Measurements
		if check.Status == report.Passed {
			check.Points = check.MaxPoints
		}
		r.View.CheckDone(*check)
	}
	return lines.Err()
}

// endGrace is how long the checks may take to end after their last word.
const endGrace = 5 * time.Second

// running marks the check during which a run ends.
const running = "skipped: the run ended while it ran"

func (r *run) find(id string) *report.Check {
	for i := range r.report.Checks {
		if r.report.Checks[i].ID == id {
			return &r.report.Checks[i]
		}
	}
	return nil
}

// failRunning makes the check during which something went wrong the one that failed: it is what brought it out.
func (r *run) failRunning(observed string, evidence []string) {
	for i := range r.report.Checks {
		check := &r.report.Checks[i]
		if check.Reason != running {
			continue
		}
		check.Status, check.Reason = report.Failed, ""
		check.Expected, check.Observed, check.Evidence = check.Title, observed, evidence
		r.View.CheckDone(*check)
	}
}

// complete makes sure that every check came to an end: a check that was not run must not look like one that was skipped.
func (r *run) complete(output *logTail) error {
	if r.torture != nil {
		return r.torture.complete(output)
	}
	for _, check := range r.report.Checks {
		if check.Status == report.Skipped && !strings.Contains(check.Reason, "it needs") {
			return fmt.Errorf("the checks ended before %s; they said:\n%s", check.ID, output.String())
		}
	}
	return nil
}

// forbiddenTimeout is for reading the audit log once more.
const forbiddenTimeout = 5 * time.Second

// takeForbidden takes all that the operator was refused into the report, each with the marker that would allow it.
func (r *run) takeForbidden() error {
	ctx, cancel := context.WithTimeout(context.Background(), forbiddenTimeout)
	defer cancel()
	log, err := r.cluster.openAudit(ctx)
	if err != nil {
		return err
	}
	for _, right := range audit.ForbiddenRights(log.Since(0, audit.By(r.user))) {
		resource := right.Resource
		if resource == "" {
			resource = right.URL
		}
		r.report.Forbidden = append(r.report.Forbidden, report.Forbidden{
			Verb: right.Verb, Group: right.Group, Resource: resource, Subresource: right.Subresource,
			Count: right.Count, Marker: right.Marker(),
		})
	}
	return log.Err()
}

// logTail keeps the end of what is written to it.
type logTail struct{ content []byte }

func (l *logTail) Write(p []byte) (int, error) {
	const keep = 8 << 10
	l.content = append(l.content, p...)
	l.content = l.content[max(0, len(l.content)-keep):]
	return len(p), nil
}

func (l *logTail) String() string { return string(l.content) }
