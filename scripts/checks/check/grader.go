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
	"net"
	"net/http"
	"strings"
	"time"

	"lva.io/operators/scripts/checks/protocol"
	"lva.io/operators/scripts/faults"
)

// ErrNoOperator is returned to checks that ask for what only a lab with an operator has.
var ErrNoOperator = errors.New("this lab runs no operator")

// grader is the process that runs the operator. Nil in a lab without one.
type grader struct{ client http.Client }

func newGrader(socket string) *grader {
	return &grader{client: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Operator is the student's program.
type Operator struct{ *grader }

// Stop asks the operator to end, and waits until it has.
func (o Operator) Stop(ctx context.Context) error {
	return o.post(ctx, protocol.StopOperator, nil, nil)
}

// Kill ends the operator at once, as a power failure would.
func (o Operator) Kill(ctx context.Context) error {
	return o.post(ctx, protocol.KillOperator, nil, nil)
}

// Start starts the operator again.
func (o Operator) Start(ctx context.Context) error {
	return o.post(ctx, protocol.StartOperator, nil, nil)
}

// Faults is what can go wrong between the operator and those that it talks to.
type Faults struct{ *grader }

// Arm lets things go wrong from now on, counting requests from here. A schedule that is armed already is replaced.
func (f Faults) Arm(ctx context.Context, schedule faults.Schedule) error {
	return f.post(ctx, protocol.Arm, schedule, nil)
}

// Disarm ends that: what was held back goes on.
func (f Faults) Disarm(ctx context.Context) error { return f.post(ctx, protocol.Disarm, nil, nil) }

// Log is all that the operator asked for since the run began, and what befell it.
func (f Faults) Log(ctx context.Context) ([]faults.Entry, error) { return f.since(ctx, 0) }

// since is the log after the entry with an ID.
func (f Faults) since(ctx context.Context, id int) (log []faults.Entry, err error) {
	return log, f.get(ctx, fmt.Sprintf("%s?%s=%d", protocol.FaultLog, protocol.Since, id), &log)
}

// lastAction is when the operator last asked for something.
func (f Faults) lastAction(ctx context.Context) (last time.Time, err error) {
	return last, f.get(ctx, protocol.LastAction, &last)
}

// Submission is the student's folder, of which some checks read files that are no Go code.
type Submission struct{ *grader }

// File reads a file; the path is slash-separated. The error is fs.ErrNotExist if there is none.
func (s Submission) File(ctx context.Context, path string) ([]byte, error) {
	body, err := s.do(ctx, http.MethodGet, protocol.Submission+path, nil)
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Run runs a shell script of the submission, in a temporary folder, with kubectl and an account that may free icecreams.
// What it prints and its exit code are the answer, also when it failed; an error is ours.
func (s Submission) Run(ctx context.Context, path string, args ...string) (output string, exit int, err error) {
	var result protocol.Output
	if args == nil {
		args = []string{}
	}
	err = s.post(ctx, protocol.Submission+path, args, &result)
	return result.Text, result.Exit, err
}

func (g *grader) post(ctx context.Context, path string, body, into any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := g.do(ctx, http.MethodPost, path, content)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

func (g *grader) get(ctx context.Context, path string, into any) error {
	answer, err := g.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
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
	case answer.StatusCode >= http.StatusBadRequest:
		return nil, fmt.Errorf("asking the grader for %s: %s", path, strings.TrimSpace(string(content)))
	}
	return content, nil
}
