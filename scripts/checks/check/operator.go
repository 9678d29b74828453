// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"lva.io/operators/scripts/checks/protocol"
)

// Operator is the student's program, which the grader runs.
type Operator struct{ client http.Client }

func newOperator(socket string) *Operator {
	return &Operator{client: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Stop asks the operator to end, and waits until it has.
func (o *Operator) Stop(ctx context.Context) error { return o.post(ctx, protocol.StopOperator) }

// Kill ends the operator at once, as a power failure would.
func (o *Operator) Kill(ctx context.Context) error { return o.post(ctx, protocol.KillOperator) }

// Start starts the operator again.
func (o *Operator) Start(ctx context.Context) error { return o.post(ctx, protocol.StartOperator) }

func (o *Operator) post(ctx context.Context, path string) error {
	if o == nil {
		return ErrNoOperator
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://grader"+path, nil)
	if err != nil {
		return err
	}
	answer, err := o.client.Do(request)
	if err != nil {
		return fmt.Errorf("asking the grader for %s: %w", path, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		message, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("asking the grader for %s: %s", path, strings.TrimSpace(string(message)))
	}
	return nil
}
