// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package protocol is what the grader and the checks, two processes, say to each other: the run before it begins, an
// event for each check that begins and ends, and requests to stop and start the operator. It contains no logic.
package protocol

import "lva.io/operators/scripts/manifest"

// RunVariable names the environment variable with the file that holds the Run, as JSON. EventsDescriptor is the file
// descriptor to which the checks write Events, one JSON object a line. A submission never gets hold of either.
const (
	RunVariable      = "OPERATOR_LABS_RUN"
	EventsDescriptor = 3
)

// Run is one grading run, as the checks see it.
type Run struct {
	Lab manifest.Lab `json:"lab"`
	// Kubeconfig is the file of an administrator's kubeconfig.
	Kubeconfig string `json:"kubeconfig"`
	// AuditLog is the API server's audit log.
	AuditLog string `json:"auditLog"`
	// OperatorUser is the user name by which the API server, and so the audit log, knows the operator.
	OperatorUser string `json:"operatorUser"`
	// Control is the Unix socket on which the grader stops and starts the operator. Empty in a lab without one.
	Control string `json:"control,omitempty"`
}

// Event says that a check began (without Status) or ended.
type Event struct {
	Check string `json:"check"`
	// Status is passed, failed or skipped.
	Status   string   `json:"status,omitempty"`
	Seconds  float64  `json:"seconds,omitempty"`
	Expected string   `json:"expected,omitempty"`
	Observed string   `json:"observed,omitempty"`
	Evidence []string `json:"evidence,omitempty"`
	Reason   string   `json:"reason,omitempty"`
}

// Paths of the control socket: POST.
const (
	StopOperator  = "/operator/stop"  // asks it to end (SIGTERM) and waits until it has
	KillOperator  = "/operator/kill"  // ends it at once (SIGKILL)
	StartOperator = "/operator/start" // starts it; nothing happens if it runs
)
