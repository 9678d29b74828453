// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"lva.io/operators/scripts/grading/operatorlog"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// problems are the panics and errors of Reconcile that the operator has logged since its log had this size, one
// sentence each. They are evidence: a panic that controller-runtime recovers leaves no other trace than an operator
// that does nothing.
func (o *operator) problems(since int64) []string {
	if o == nil {
		return nil
	}
	return o.findings(since).Lines()
}

// webhookPaths names the paths at which the operator serves webhooks, according to its log, if the API server got no
// answer from one of the submission's webhooks.
func (o *operator) webhookPaths(event protocol.Event) []string {
	// If the request failed, only the API server's message tells why. (ErrCallingWebhook in k8s.io/apiserver)
	failed := func(text string) bool {
		return slices.ContainsFunc(o.webhooks, func(name string) bool {
			return strings.Contains(text, fmt.Sprintf("failed calling webhook %q", name))
		})
	}
	if o == nil || !event.FailedOpen && !failed(event.Observed) && !slices.ContainsFunc(event.Evidence, failed) {
		return nil
	}
	paths := o.findings(o.began()).Webhooks
	if len(paths) == 0 {
		return nil
	}
	return []string{"according to its log, the operator serves webhooks at " + strings.Join(paths, " and ")}
}

// serverLogLines is how many lines of a server's log a failed check shows, and serverLogWidth how many bytes of each.
const (
	serverLogLines = 8
	serverLogWidth = 500
)

// serverLog returns the last lines that an aggregated API server has logged since its log had this size. Only its log
// shows which requests it gets, and how it handles them.
func (o *operator) serverLog(since int64) []string {
	if o == nil {
		return nil
	}
	text := strings.TrimSpace(o.log.since(since))
	if text == "" {
		return []string{"the server has logged nothing since this check began"}
	}
	lines := strings.Split(text, "\n")
	evidence := []string{"the last lines of the server's log since this check began:"}
	for _, line := range lines[max(0, len(lines)-serverLogLines):] {
		if len(line) > serverLogWidth {
			line = strings.ToValidUTF8(line[:serverLogWidth], "") + "…"
		}
		evidence = append(evidence, line)
	}
	return evidence
}

func (o *operator) findings(since int64) operatorlog.Findings {
	return operatorlog.Read(o.log.since(since), operatorlog.Source{Module: o.builder.Module, Dir: o.builder.Dir})
}

// began is the size of the log, in bytes, when the operator was last started.
func (o *operator) began() int64 {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.logBegan
}

// logged is the size of the operator's log, in bytes.
func (o *operator) logged() int64 {
	if o == nil {
		return 0
	}
	return o.log.size()
}

// explain extends the reason that ended a run with details from the operator's log: why the operator crashed, or what
// filled its log.
func (o *operator) explain(err error) error {
	v := (*verdict)(nil)
	if !errors.As(err, &v) {
		return err
	}
	switch v.outcome {
	case report.Crashed, report.NotStarted:
		switch found := o.findings(o.began()); {
		case len(found.Panics) > 0:
			v.reason += "; it panicked: " + found.Panics[0].String()
		case found.Last != "":
			v.reason += "; its last error: " + found.Last
		}
	case report.Flooded:
		v.reason = o.flood(v.reason)
	}
	return err
}

// flood appends to a reason what filled the operator's log: the lines that make up most of it, or the error that it
// reports most often.
func (o *operator) flood(reason string) string {
	log := o.log.since(0)
	switch bulk := operatorlog.BulkOf(log); {
	case bulk.Bytes > len(log)/2 && bulk.Long:
		what := fmt.Sprintf("%d lines of up to %s, which begin", bulk.Count, humanize.Bytes(uint64(bulk.Longest)))
		if bulk.Count == 1 {
			what = fmt.Sprintf("one line of %s, which begins", humanize.Bytes(uint64(bulk.Longest)))
		}
		return fmt.Sprintf("%s, most of it as %s %q", strings.TrimSuffix(reason, repeated), what, bulk.Text)
	case bulk.Bytes > len(log)/2 && !bulk.Problem:
		return fmt.Sprintf("%s; %d times: %s", reason, bulk.Count, bulk.Text)
	}
	if lines := o.problems(0); len(lines) > 0 {
		return reason + "; most often: " + lines[0]
	}
	return reason
}

// size is the size of the log, in bytes.
func (l *operatorLog) size() int64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return min(l.written, logLimit)
}

// since returns what was logged since the log had this size. It is empty if the log can't be read.
func (l *operatorLog) since(size int64) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	content, _ := io.ReadAll(io.NewSectionReader(l.file, size, logLimit))
	return string(content)
}
