// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package protocol is what the grader and the checks, two processes, say to each other: the run before it begins, an
// event for each check that begins and ends, and what the checks ask of the grader while they run: to stop and start
// the operator, to let things go wrong, to hand out a file of the submission. It contains no logic.
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
	// AuditLate says that it is a copy, which comes a moment late.
	AuditLate bool `json:"auditLate,omitempty"`
	// NodeFollows says that a node becomes Ready by itself, if it is not by now.
	NodeFollows bool `json:"nodeFollows,omitempty"`
	// OperatorUser is the user name by which the API server, and so the audit log, knows the operator.
	OperatorUser string `json:"operatorUser"`
	// Rules are those of the role that the operator's markers generate.
	Rules audit.Rules `json:"rules,omitempty"`
	// AuditMark begins the IDs of those of its requests that came to the API server through the proxy; see audit.Around.
	AuditMark string `json:"auditMark,omitempty"`
	// Control is the Unix socket on which the grader listens for the checks. Empty in a lab without an operator.
	Control string `json:"control,omitempty"`
	// Image is the reference of the submission's image, which the nodes have, and Manifests the file with what its
	// config/default comes to, in YAML. Both are empty but in a lab whose checks deploy it.
	Image     string `json:"image,omitempty"`
	Manifests string `json:"manifests,omitempty"`
	// Shared says that the cluster has other users: what they have there is not touched.
	Shared bool `json:"shared,omitempty"`
	// Exchange is a folder in which the operator, which sees few others, and the checks may write.
	Exchange string `json:"exchange,omitempty"`
	// Services are the URLs of the lab's services for checks, past the faults, by their names.
	Services map[string]string `json:"services,omitempty"`
	// Kubectl is a program that is kubectl when its name, or its first argument, says so.
	Kubectl string `json:"kubectl,omitempty"`
	// Server is the submission as an aggregated API server; zero in other labs.
	Server Server `json:"server,omitzero"`
	// Seed is where all that is random in the run comes from.
	Seed uint32 `json:"seed"`
	// First is the ID of the check that runs before all others, after those that it needs. Empty: the checks run in the
	// order of the list.
	First string `json:"first,omitempty"`
	// NotStarted are the steps of the lab that the submission has not started. Their checks wait briefly.
	NotStarted []int `json:"unbegun,omitempty"`
	// Stories is how many stories are played, where a lab has them: of this seed and of those that follow. 0 is one.
	Stories int `json:"stories,omitempty"`
	// Preconditions says that only the lab's preconditions are to be checked; otherwise all but those are.
	Preconditions bool `json:"preconditions,omitempty"`
	// Extended says that the submission has started the lab's extension.
	Extended bool `json:"extended,omitempty"`
	// NotExtended says why the checks of the lab's extension can't be tried on this submission. Empty: they can, or there
	// are none.
	NotExtended string `json:"notExtended,omitempty"`
	// Torture is how many random schedules of faults the lab's scenario is put through, after all single crashes. Nil: it
	// is not; the checks are run.
	Torture *int `json:"torture,omitempty"`
	// Scenes says that a torture plays the lab's scenes, too.
	Scenes bool `json:"scenes,omitempty"`
}

// Server is where an aggregated API server is asked past the API server.
type Server struct {
	// URL is https. It is empty for a Pod: that is behind the Port of the Service in the Namespace.
	URL       string `json:"url,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Service   string `json:"service,omitempty"`
	Port      int32  `json:"port,omitempty"`
	// CA, in PEM, is the authority of its certificate, and Name the host name in it.
	CA   string `json:"ca,omitempty"`
	Name string `json:"name,omitempty"`
	// FrontProxyCert and FrontProxyKey are the files, in PEM, by which one comes to it as the front proxy. Empty in a
	// cluster of others.
	FrontProxyCert string `json:"frontProxyCert,omitempty"`
	FrontProxyKey  string `json:"frontProxyKey,omitempty"`
}

// Event says that a check began (without Status) or ended, or that a trial of the torture did. One with a Note says
// only that.
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
	// Prevented says why there can be no grade here, whatever the submission is. It ends the run.
	Prevented string `json:"prevented,omitempty"`
	Trial     *Trial `json:"trial,omitempty"`
	Note      *Note  `json:"note,omitempty"`
}

// Note is something that the checks saw in the cluster, for the report's timeline.
type Note struct {
	// Time is when it happened or began, and Seconds how long it took; 0 for what has no length.
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds,omitempty"`
	// What happened, in a few words that begin with kind and name of an object: "Certificate serving-cert is Ready".
	What string `json:"what"`
}

// Trial is a scenario that was played under a schedule of faults.
type Trial struct {
	// Number counts from 1 to Of, the number of all trials of the sweep. It is 0 for one that repeats a failed one with
	// fewer faults, to find the shortest schedule that fails.
	Number int `json:"number"`
	Of     int `json:"of"`
	// Schedule is what went wrong; empty for the trial on a good day, which comes first.
	Schedule faults.Schedule `json:"schedule"`
	// Ended is false of a trial that begins.
	Ended  bool `json:"ended,omitempty"`
	Passed bool `json:"passed,omitempty"`
	// Final is true of the failed trial that is the result of the torture: no shorter schedule fails.
	Final bool `json:"final,omitempty"`
	// Timeline is what the operator asked for during a failed trial, and what befell it.
	Timeline []faults.Entry `json:"timeline,omitempty"`
}

// Usage is what the operator's process has used of the processors.
type Usage struct {
	// Known is false where it can't be found out: of a Pod, and on systems without /proc.
	Known bool `json:"known"`
	// CPU is the time for which it ran, in seconds, and Runs how often one of its threads was given a processor: one that
	// waits for something to happen has hardly any.
	CPU  float64 `json:"cpu"`
	Runs int     `json:"runs"`
	// Waited is the time for which its threads could have run and had no processor, in seconds, summed up.
	Waited float64 `json:"waited"`
}

// Logged is what the operator has logged.
type Logged struct {
	// Size of the whole log, in bytes.
	Size int64 `json:"size"`
	// Errors are those that Reconcile returned.
	Errors []operatorlog.Error `json:"errors"`
}

// Output is what became of a script of the submission.
type Output struct {
	// Text is what it printed, on both streams.
	Text string `json:"text"`
	Exit int    `json:"exit"`
	// Hindered says what kept it from its work, whatever that is: it did not end, or the shell can't read it. Empty:
	// nothing did.
	Hindered string `json:"hindered,omitempty"`
}

// Stop is how an operator is asked to end.
type Stop struct {
	// Grace is how long it may take before it is killed. 0: as long as usual.
	Grace time.Duration `json:"grace,omitempty"`
}

// Stopped is how an operator has ended that was asked to.
type Stopped struct {
	// Failure is its exit code, or the signal that has ended it, in words. Empty: the exit code was 0.
	Failure string `json:"failure,omitempty"`
}

// Start is how an operator is started otherwise than usual.
type Start struct {
	// Flags come after its usual ones, as --leader-elect: those that its program does not have are refused. They hold
	// until it is stopped.
	// --kubeconfig= starts a process without its flag --kubeconfig, so that it uses the variable KUBECONFIG.
	Flags []string `json:"flags,omitempty"`
	// KeepLeases leaves Leases as they are. Usually those that an operator has held before are released, which a killed
	// one can't do itself.
	KeepLeases bool `json:"keepLeases,omitempty"`
}

// NotAsAPod is why a check is skipped that starts the operator as a Start says, where its Deployment decides that.
const NotAsAPod = "it needs an operator with other flags, and here it runs as a Pod: grade it as a process"

// Paths of the control socket: POST, unless stated otherwise.
const (
	StopOperator  = "/operator/stop"  // asks it to end (SIGTERM), as a Stop says if there is one, and waits until it has: a Stopped
	KillOperator  = "/operator/kill"  // ends it at once (SIGKILL)
	StartOperator = "/operator/start" // starts it, as a Start says if there is one; nothing happens if it runs
	// UpgradeOperator brings the versions into the cluster that were held back, and starts the operator again.
	UpgradeOperator = "/operator/upgrade"
	OperatorUsage   = "/operator/usage" // GET: what it has used since it was started: a Usage
	OperatorLog     = "/operator/log"   // GET: what it has logged, after as many bytes as the query's Since says: a Logged

	Arm        = "/faults/arm"    // lets things go wrong: a faults.Schedule
	Disarm     = "/faults/disarm" // ends that
	FaultLog   = "/faults/log"    // GET: all that the operator asked for, after the entry whose ID is the query's Since: []faults.Entry
	Since      = "since"
	LastAction = "/faults/last" // GET: when the operator last asked for something: a time, zero if never

	// Manifests is what kustomize builds of the submission's config/default. It is not found if kustomize can't build it.
	Manifests  = "/manifests"   // GET: the objects, as a list
	Submission = "/submission/" // GET, and the path of a file in the submission: the file. POST of a list of arguments: runs it, an Output
)
