// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/socket"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/operatorlog"
	"lva.io/operators/scripts/grading/protocol"
)

// ErrNoOperator is returned to checks that call a method that only a lab with an operator supports.
var ErrNoOperator = errors.New("this lab runs no operator")

// grader is a client of the process that runs the operator. It is nil in a lab without an operator.
type grader struct {
	client http.Client

	mutex sync.Mutex
	armed []span // the periods during which faults were armed
}

// span is a period. It is still open while it has no end.
type span struct{ from, to time.Time }

func newGrader(path string) *grader {
	return &grader{client: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return socket.Dial(ctx, path)
		},
	}}}
}

// Operator controls the student's program.
type Operator struct{ *grader }

// Stop asks the operator to exit, and waits until it has.
func (o Operator) Stop(ctx context.Context) error {
	return o.post(ctx, protocol.StopOperator, nil, nil)
}

// End is Stop for an operator that is killed after grace. It returns how the operator ended, or nothing for an exit
// code of 0.
func (o Operator) End(ctx context.Context, grace time.Duration) (failure string, err error) {
	var stopped protocol.Stopped
	err = o.post(ctx, protocol.StopOperator, protocol.Stop{Grace: grace}, &stopped)
	return stopped.Failure, err
}

// Kill ends the operator at once, as a power failure would.
func (o Operator) Kill(ctx context.Context) error {
	return o.post(ctx, protocol.KillOperator, nil, nil)
}

// Start restarts the operator.
func (o Operator) Start(ctx context.Context) error {
	return o.post(ctx, protocol.StartOperator, nil, nil)
}

// Upgrade installs the versions of the lab's extension into the cluster, makes the operator convert between versions,
// and restarts it, like the upgrade of a real operator. From then on a failed check costs no points of the lab itself.
func (o Operator) Upgrade(ctx context.Context) error {
	return o.post(ctx, protocol.UpgradeOperator, nil, nil)
}

// Errors of StartAs: the operator's program does not have a flag, or its flags can't be chosen on this stage, such as
// those of a Pod.
var (
	ErrNoSuchFlag    = errors.New("there is no such flag")
	ErrNotAdjustable = errors.New("the flags of this operator can't be chosen")
)

// StartAs restarts the operator with other settings, which apply until it is stopped.
func (o Operator) StartAs(ctx context.Context, options protocol.Start) error {
	return o.post(ctx, protocol.StartOperator, options, nil)
}

// Logged returns how much the operator has logged so far, in bytes. It is a mark for Errors.
func (o Operator) Logged(ctx context.Context) (int64, error) {
	logged, err := o.log(ctx, math.MaxInt64)
	return logged.Size, err
}

// Errors returns the errors that Reconcile has returned since the operator had logged the given number of bytes, as far
// as its log shows them.
func (o Operator) Errors(ctx context.Context, since int64) ([]operatorlog.Error, error) {
	logged, err := o.log(ctx, since)
	return logged.Errors, err
}

func (o Operator) log(ctx context.Context, since int64) (logged protocol.Logged, err error) {
	return logged, o.get(ctx, fmt.Sprintf("%s?%s=%d", protocol.OperatorLog, protocol.Since, since), &logged)
}

// usage returns the CPU usage of the operator's process.
func (o Operator) usage(ctx context.Context) (usage protocol.Usage, err error) {
	return usage, o.get(ctx, protocol.OperatorUsage, &usage)
}

// Faults injects failures between the operator and the services that it calls.
type Faults struct{ *grader }

// Arm injects the faults of a schedule from now on, counting requests from here. It replaces a schedule that is armed.
func (f Faults) Arm(ctx context.Context, schedule faults.Schedule) error {
	f.arming(len(schedule.Faults) > 0)
	return f.post(ctx, protocol.Arm, schedule, nil)
}

// Disarm ends the injection, and releases delayed requests.
func (f Faults) Disarm(ctx context.Context) error {
	defer f.arming(false)
	return f.post(ctx, protocol.Disarm, nil, nil)
}

// arming records that faults are armed from now on, or no longer.
func (f Faults) arming(armed bool) {
	if f.grader == nil {
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if last := len(f.armed) - 1; last >= 0 && f.armed[last].to.IsZero() {
		f.armed[last].to = time.Now()
	}
	if armed {
		f.armed = append(f.armed, span{from: time.Now()})
	}
}

// armedAt reports whether faults were armed at a given time.
func (f Faults) armedAt(at time.Time) bool {
	if f.grader == nil {
		return false
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.ContainsFunc(f.armed, func(s span) bool {
		return !at.Before(s.from) && (s.to.IsZero() || at.Before(s.to))
	})
}

// Log returns all requests of the operator since the run began, with the faults that were injected.
func (f Faults) Log(ctx context.Context) ([]faults.Entry, error) { return f.since(ctx, 0) }

// since returns the log after the entry with an ID.
func (f Faults) since(ctx context.Context, id int) (log []faults.Entry, err error) {
	return log, f.get(ctx, fmt.Sprintf("%s?%s=%d", protocol.FaultLog, protocol.Since, id), &log)
}

// lastAction returns when the operator last sent a request.
func (f Faults) lastAction(ctx context.Context) (last time.Time, err error) {
	return last, f.get(ctx, protocol.LastAction, &last)
}

// Submission is the student's folder. Some checks read files in it that are not Go code.
type Submission struct{ *grader }

// File reads a file. The path is slash-separated. The error is fs.ErrNotExist if the file is missing.
func (s Submission) File(ctx context.Context, path string) ([]byte, error) {
	body, err := s.do(ctx, http.MethodGet, protocol.Submission+path, nil)
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Manifests returns the objects of the submission's config/default, as kustomize builds them. The error is
// fs.ErrNotExist if kustomize can't build them.
func (s Submission) Manifests(ctx context.Context) (objects []map[string]any, err error) {
	err = s.get(ctx, protocol.Manifests, &objects)
	return objects, err
}

// Run runs a shell script of the submission in a temporary folder, with kubectl and an account that may free icecreams.
// The answer has its output and its exit code, even if the script failed. If the script could not do its work for any
// reason, the error is a *ScriptError, and the answer is returned as well. Other errors are internal.
func (s Submission) Run(ctx context.Context, path string, args ...string) (output string, exit int, err error) {
	var result protocol.Output
	if args == nil {
		args = []string{}
	}
	err = s.post(ctx, protocol.Submission+path, args, &result)
	if err == nil && result.Problem != "" {
		err = &ScriptError{Observed: result.Problem}
	}
	return result.Text, result.Exit, err
}

// ScriptError describes what prevented a script of the submission from doing its work: it did not end, or the shell
// can't read it.
type ScriptError struct {
	// Observed is the observation of a check that fails because of the error.
	Observed string
}

func (e *ScriptError) Error() string { return e.Observed }

func (g *grader) post(ctx context.Context, path string, body, result any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := g.do(ctx, http.MethodPost, path, content)
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(answer, result)
}

func (g *grader) get(ctx context.Context, path string, result any) error {
	answer, err := g.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, result)
}

func (g *grader) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	if g == nil {
		return nil, ErrNoOperator
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://grader"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := g.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the grader for %s: %w", path, err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the grader for %s: %w", path, err)
	case answer.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", strings.TrimSpace(string(content)), fs.ErrNotExist)
	case answer.StatusCode == http.StatusUnprocessableEntity:
		return nil, fmt.Errorf("%w: %s", ErrNoSuchFlag, strings.TrimSpace(string(content)))
	case answer.StatusCode == http.StatusNotImplemented:
		return nil, fmt.Errorf("%w: %s", ErrNotAdjustable, strings.TrimSpace(string(content)))
	case answer.StatusCode >= http.StatusBadRequest:
		return nil, fmt.Errorf("asking the grader for %s: %s", path, strings.TrimSpace(string(content)))
	}
	return content, nil
}
