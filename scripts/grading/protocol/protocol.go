// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package protocol defines the messages between the grader and the process that runs the checks. The grader first
// describes the run. The checks send an event when each check begins and ends. While they run, they can ask the grader
// to stop and start the operator, to inject faults, or to return a file of the submission. The package contains no
// logic.
package protocol

import (
	"time"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/operatorlog"
	"lva.io/operators/scripts/grading/report"
)

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
	// AuditDelayed is true if the audit log is a copy, which is written a moment later.
	AuditDelayed bool `json:"auditDelayed,omitempty"`
	// NodeExpected is true if a node that is not Ready yet becomes Ready by itself.
	NodeExpected bool `json:"nodeExpected,omitempty"`
	// OperatorUser is the user name of the operator at the API server, and so in the audit log.
	OperatorUser string `json:"operatorUser"`
	// Rules are the rules of the role that is generated from the operator's markers.
	Rules audit.Rules `json:"rules,omitempty"`
	// Webhooks are the names of the submission's webhooks.
	Webhooks []string `json:"webhooks,omitempty"`
	// AuditMark is the prefix of the audit IDs of the operator's requests that came through the proxy: see audit.Around.
	AuditMark string `json:"auditMark,omitempty"`
	// Control is the Unix socket on which the grader listens for the checks. It is empty in a lab without an operator.
	Control string `json:"control,omitempty"`
	// Image is the reference of the submission's image, which the nodes have, and Manifests the file with the rendered
	// config/default, in YAML. Both are empty except in a lab whose checks deploy the submission.
	Image     string `json:"image,omitempty"`
	Manifests string `json:"manifests,omitempty"`
	// Shared is true if the cluster has other users, whose objects must not be touched.
	Shared bool `json:"shared,omitempty"`
	// Exchange is a folder in which both the operator and the checks may write. The operator sees few other folders.
	Exchange string `json:"exchange,omitempty"`
	// Services are the URLs of the lab's services for checks, by name. Requests to them bypass the faults.
	Services map[string]string `json:"services,omitempty"`
	// Kubectl is a multicall program that runs kubectl if its name or its first argument is kubectl.
	Kubectl string `json:"kubectl,omitempty"`
	// Server describes the submission as an aggregated API server. It is zero in other labs.
	Server Server `json:"server,omitzero"`
	// Seed is the seed of everything random in the run.
	Seed uint32 `json:"seed"`
	// First is the ID of the check that runs before all others, after those that it needs. If it is empty, the checks run
	// in the order of the list.
	First string `json:"first,omitempty"`
	// NotStarted are the steps of the lab that the submission has not started. Their checks wait only briefly.
	NotStarted []int `json:"notStarted,omitempty"`
	// Stories is how many stories are run, if a lab has stories: the story of this seed and those of the seeds that
	// follow. 0 means one.
	Stories int `json:"stories,omitempty"`
	// Preconditions is true if only the lab's preconditions are checked. Otherwise all other checks run.
	Preconditions bool `json:"preconditions,omitempty"`
	// Extended is true if the submission has started the lab's extension.
	Extended bool `json:"extended,omitempty"`
	// NotExtended explains why the checks of the lab's extension can't run on this submission. It is empty if they can,
	// or if there are none.
	NotExtended string `json:"notExtended,omitempty"`
	// Torture is the number of random schedules of faults under which the lab's scenario is run, after all single
	// crashes. If it is nil, the checks run instead.
	Torture *int `json:"torture,omitempty"`
	// Scenes is true if a torture runs the lab's scenes, too.
	Scenes bool `json:"scenes,omitempty"`
}

// Server is the address at which the checks send requests directly to an aggregated API server.
type Server struct {
	// URL begins with https://. It is empty for a Pod, which is reached at the Port of the Service in the Namespace.
	URL       string `json:"url,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Service   string `json:"service,omitempty"`
	Port      int32  `json:"port,omitempty"`
	// CA, in PEM, is the authority that issued its certificate, and Name the host name in the certificate.
	CA   string `json:"ca,omitempty"`
	Name string `json:"name,omitempty"`
	// FrontProxyCert and FrontProxyKey are the PEM files with which a client authenticates to it as the front proxy. They
	// are empty in a shared cluster.
	FrontProxyCert string `json:"frontProxyCert,omitempty"`
	FrontProxyKey  string `json:"frontProxyKey,omitempty"`
}

// Event reports that a check began (without Status) or ended, or that a trial of the torture did. An event with a
// Note reports only the note.
type Event struct {
	Check string `json:"check,omitempty"`
	// Status is passed, failed or skipped.
	Status       string               `json:"status,omitempty"`
	Seconds      float64              `json:"seconds,omitempty"`
	Expected     string               `json:"expected,omitempty"`
	Observed     string               `json:"observed,omitempty"`
	Evidence     []string             `json:"evidence,omitempty"`
	Reason       string               `json:"reason,omitempty"`
	Measurements []report.Measurement `json:"measurements,omitempty"`
	// FailedOpen is true if a webhook of the submission gave no answer before the check failed, and its failurePolicy let
	// the request pass.
	FailedOpen bool `json:"failedOpen,omitempty"`
	// Prevented explains why no submission can be graded here. It ends the run.
	Prevented string `json:"prevented,omitempty"`
	Trial     *Trial `json:"trial,omitempty"`
	Note      *Note  `json:"note,omitempty"`
}

// Note is an observation of the checks in the cluster, for the report's timeline.
type Note struct {
	// Time is when it happened or began, and Seconds how long it took, or 0 if it has no duration.
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds,omitempty"`
	// What describes what happened, in a few words that begin with the kind and name of an object: "Certificate
	// serving-cert is Ready".
	What string `json:"what"`
}

// Trial is a scenario that is run under a schedule of faults.
type Trial struct {
	// Number counts from 1 to Of, the number of all trials of the sweep. It is 0 for a trial that repeats a failed one
	// with fewer faults to find the shortest schedule that fails.
	Number int `json:"number"`
	Of     int `json:"of"`
	// Schedule has the faults that were injected. It is empty for the first trial, which has no faults.
	Schedule faults.Schedule `json:"schedule"`
	// Ended is false for a trial that begins.
	Ended  bool `json:"ended,omitempty"`
	Passed bool `json:"passed,omitempty"`
	// Final is true for the failed trial that is the result of the torture: no shorter schedule fails.
	Final bool `json:"final,omitempty"`
	// Timeline has the operator's requests during a failed trial, and what happened to the operator.
	Timeline []faults.Entry `json:"timeline,omitempty"`
}

// Usage is the processor time that the operator's process has used.
type Usage struct {
	// Known is false if the usage can't be determined: for a Pod, and on systems without /proc.
	Known bool `json:"known"`
	// CPU is the time for which it ran, in seconds, and Runs how often one of its threads was scheduled on a processor. An
	// operator that waits for events has hardly any Runs.
	CPU  float64 `json:"cpu"`
	Runs int     `json:"runs"`
	// Waited is the total time in seconds for which its threads were ready to run but had no processor.
	Waited float64 `json:"waited"`
}

// Logged is what the operator has logged.
type Logged struct {
	// Size is the size of the whole log, in bytes.
	Size int64 `json:"size"`
	// Errors are the errors that Reconcile returned.
	Errors []operatorlog.Error `json:"errors"`
}

// Output is the result of a script of the submission.
type Output struct {
	// Text is what the script printed to both streams.
	Text string `json:"text"`
	Exit int    `json:"exit"`
	// Problem explains what kept the script from doing its work: it did not end, or the shell can't read it. It is empty
	// if nothing did.
	Problem string `json:"problem,omitempty"`
}

// Stop defines how to stop an operator.
type Stop struct {
	// Grace is how long it may take before it is killed. 0 means the usual time.
	Grace time.Duration `json:"grace,omitempty"`
}

// Stopped describes how an operator ended that was asked to stop.
type Stopped struct {
	// Failure is its exit code, or the signal that has ended it, in words. It is empty if the exit code was 0.
	Failure string `json:"failure,omitempty"`
}

// Start defines what to change when an operator is started.
type Start struct {
	// Flags are added after its usual ones, such as --leader-elect. Flags that its program does not have are refused. They
	// apply until the operator is stopped. --kubeconfig= starts a process without its flag --kubeconfig, so that it uses
	// the variable KUBECONFIG.
	Flags []string `json:"flags,omitempty"`
	// KeepLeases leaves Leases as they are. By default, the Leases that an operator held before are released, because a
	// killed operator can't release them itself.
	KeepLeases bool `json:"keepLeases,omitempty"`
}

// NeedsProcess is the reason for skipping a check that starts the operator with a Start, if the operator's Deployment
// decides how it is started.
const NeedsProcess = "the check starts the operator with other flags, " +
	"which is not possible for a Pod: grade it as a process"

// Paths of the control socket: POST, unless stated otherwise.
const (
	StopOperator  = "/operator/stop"  // asks it to end (SIGTERM), with an optional Stop, and waits until it has: a Stopped
	KillOperator  = "/operator/kill"  // ends it at once (SIGKILL)
	StartOperator = "/operator/start" // starts it, with an optional Start, unless it is running
	// UpgradeOperator installs the versions that were held back, and starts the operator again.
	UpgradeOperator = "/operator/upgrade"
	OperatorUsage   = "/operator/usage" // GET: what it has used since it was started: a Usage
	OperatorLog     = "/operator/log"   // GET: what it has logged, after as many bytes as in the query's Since: a Logged

	Arm        = "/faults/arm"    // injects faults: a faults.Schedule
	Disarm     = "/faults/disarm" // ends the injection
	FaultLog   = "/faults/log"    // GET: the operator's requests after the entry whose ID is in Since: []faults.Entry
	Since      = "since"
	LastAction = "/faults/last" // GET: the time of the operator's last request that counts, zero if there is none

	// Manifests returns what kustomize builds from the submission's config/default. The status is 404 Not Found if
	// kustomize can't build it.
	Manifests = "/manifests" // GET: the objects, as a list
	// Submission, followed by the path of a file in the submission, returns the file (GET). A POST of a list of
	// arguments runs it and returns an Output.
	Submission = "/submission/"
)
