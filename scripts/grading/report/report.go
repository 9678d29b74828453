// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schema names the version of the JSON. A change that breaks readers of the old version needs a new number.
const Schema = "operator-labs/report/v4"

// Outcome is how a run ended. Only Graded means that the checks have decided.
type Outcome string

const (
	// Graded means that all checks were decided: they passed, failed, or were skipped because another one failed.
	Graded Outcome = "graded"
	// NotBuilt means that the submission does not compile: see Diagnostics.
	NotBuilt Outcome = "not-built"
	// NotGenerated means that the markers or CRDs can't be used: no manifests can be generated from them, or the API
	// server refuses them.
	NotGenerated Outcome = "not-generated"
	// NotStarted means that the operator hangs or exits before it watches anything.
	NotStarted Outcome = "not-started"
	// Crashed means that the operator ended while it was graded.
	Crashed Outcome = "crashed"
	// Flooded means that the operator wrote more log than is allowed, or that its requests filled the audit log.
	Flooded Outcome = "flooded"
	// TimedOut means that the lab's time limit ended the run.
	TimedOut Outcome = "timed-out"
	// Unfinished means that the run has not ended yet, or was killed. A run writes such a report when it begins.
	Unfinished Outcome = "unfinished"
	// Interrupted means that a user or the system ended the run.
	Interrupted Outcome = "interrupted"
	// Error means that the harness failed. It is no evidence about the submission.
	Error Outcome = "error"
)

// Outcomes lists all outcomes.
var Outcomes = []Outcome{
	Graded, NotBuilt, NotGenerated, NotStarted, Crashed, Flooded, TimedOut, Unfinished, Interrupted, Error,
}

// Headline returns the meaning of an outcome for a student, in a few words.
func (o Outcome) Headline() string {
	switch o {
	case Graded:
		return "It was graded"
	case NotBuilt:
		return "It does not build"
	case NotGenerated:
		return "It generates no usable manifests"
	case NotStarted:
		return "The operator did not start"
	case Crashed:
		return "The operator crashed"
	case Flooded:
		return "The operator flooded its log"
	case TimedOut:
		return "The run timed out"
	case Unfinished:
		return "The run has not ended"
	case Interrupted:
		return "The run was interrupted"
	case Error:
		return "It could not be graded"
	}
	return string(o)
}

// Status is how one check ended.
type Status string

// A check that did not run, for whatever reason, is skipped and has no points.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Report is the result of one grading run. It is written in every case, even if the submission does not build.
type Report struct {
	// Schema is the constant of this name. Sanitize sets it.
	Schema string `json:"schema"`
	// Lab is the lab's name, such as 02-reconciler, and Title its title for people.
	Lab        string     `json:"lab"`
	Title      string     `json:"title"`
	Submission Submission `json:"submission"`
	Outcome    Outcome    `json:"outcome"`
	// Reason is one sentence, for every outcome but Graded.
	Reason string `json:"reason,omitempty"`
	// MachineError is true if there is no grade because this machine stopped the run, or was too busy. The same run may
	// succeed later. It is not stored.
	MachineError bool `json:"-"`
	// Started is the time of the start in UTC, to the millisecond.
	Started time.Time `json:"started"`
	// Seconds is the time from the start to the end of the run.
	Seconds float64 `json:"seconds"`
	// Seed is the seed of everything random in the run, such as its faults. The same seed gives the same faults. It is 0
	// if nothing was checked.
	Seed uint32 `json:"seed,omitempty"`
	// Score is the sum of the points of Checks, without those of an extension. It is a grade only if Outcome is Graded:
	// see FullMarks.
	Score    int `json:"score"`
	MaxScore int `json:"maxScore"`
	// Undecided are the points of checks that were left out because this machine can't decide them. MaxScore and Checks do
	// not include them, so Score is not a grade.
	Undecided   int         `json:"undecided,omitempty"`
	Environment Environment `json:"environment"`
	// Steps are the steps before the checks, in the order in which they ended. Some run concurrently, so their times do
	// not sum to Seconds.
	Steps []Step `json:"steps"`
	// Checks are in the order of labs.yaml. Checks that a run never reached are included as skipped.
	Checks []Check `json:"checks"`
	// Forbidden are the requests of the operator that its role does not allow.
	Forbidden []Forbidden `json:"forbidden,omitempty"`
	// Notices are facts that a student should know and that no check decides, one sentence each.
	Notices []string `json:"notices,omitempty"`
	// Diagnostics are the messages of the compiler and the generators, in their order.
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
	// OperatorLog are the last lines of the operator's log, oldest first.
	OperatorLog []string `json:"operatorLog,omitempty"`
	// Timeline is what happened while the checks ran, in the order of At: the operator's requests, the faults that hit
	// them, and when the operator was killed and started.
	Timeline []Moment `json:"timeline,omitempty"`
}

// Submission is what was graded.
type Submission struct {
	// Dir is its folder, absolute.
	Dir string `json:"dir"`
	// Module is its path in go.mod. It and the versions are empty if go.mod could not be read.
	Module            string `json:"module,omitempty"`
	Go                string `json:"go,omitempty"`
	ControllerRuntime string `json:"controllerRuntime,omitempty"`
	// Arguments are the arguments with which its program was started: the command that its Deployment names, and those
	// flags in the program's help that keep it from listening at a port that another program may use.
	Arguments []string `json:"arguments,omitempty"`
}

// Environment describes the cluster and the machine on which it was graded.
type Environment struct {
	// Cluster is the kind of cluster: embedded, kind or existing.
	Cluster    string `json:"cluster"`
	Kubernetes string `json:"kubernetes,omitempty"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPUs       int    `json:"cpus"`
	// Containment is the mechanism that ends everything that the submission has started on this machine: namespaces,
	// supervisor or group. It is empty if the submission started nothing here.
	Containment string `json:"containment,omitempty"`
	// Walls are the walls of the sandbox around every program of the submission on this machine: private root, files,
	// network, system calls. They are empty if it ran no program, or if no wall was built.
	Walls []string `json:"walls,omitempty"`
}

// Step is one step before the checks.
type Step struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Check is the result of one check.
type Check struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status Status `json:"status"`
	// Extension is true for a check of the lab's extension, whose points are not part of the Score.
	Extension bool `json:"extension,omitempty"`
	// Part names the milestone to which the check belongs, in a lab that is built in parts. It is empty in others.
	Part string `json:"part,omitempty"`
	// Points are MaxPoints if it passed and 0 otherwise. There are no partial points. A precondition, which is a check of
	// an earlier lab and is listed only if it failed, has 0 of 0.
	Points    int `json:"points"`
	MaxPoints int `json:"maxPoints"`
	// At is when it began, in seconds after the start of the run, or 0 if it did not run.
	At      float64 `json:"at,omitempty"`
	Seconds float64 `json:"seconds"`
	// Expected and Observed belong to a failed check.
	Expected string `json:"expected,omitempty"`
	Observed string `json:"observed,omitempty"`
	// Evidence explains the result, one fact per line: panics and errors from the operator's log, and its requests.
	Evidence []string `json:"evidence,omitempty"`
	// Measurements are figures that the check took, in its order. No points depend on them.
	Measurements []Measurement `json:"measurements,omitempty"`
	// Reason explains why it was skipped.
	Reason string `json:"reason,omitempty"`
	// Lecture is the heading that explains the check: file#anchor.
	Lecture string `json:"lecture,omitempty"`
	// Causes are the IDs of checks that name the cause when this check fails and they fail too. The likeliest comes first.
	Causes []string `json:"causes,omitempty"`
}

// Measurement is a figure that a check measured: p99 of an admission, 4.2 ms.
type Measurement struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Unit is empty for a count.
	Unit string `json:"unit,omitempty"`
}

// String returns the figure in one line, with as many digits as are useful to a person.
func (m Measurement) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", m.Name, significant(m.Value), m.Unit))
}

// significant formats a value with three significant digits. A large number has all its digits unless it would be
// unreadable.
func significant(value float64) string {
	size := math.Abs(value)
	switch {
	case size >= 1e12 || size > 0 && size < 1e-6:
		return strconv.FormatFloat(value, 'g', 3, 64)
	case size >= 100:
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	three, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 3, 64), 64) // FormatFloat's output is always valid
	return strconv.FormatFloat(three, 'f', -1, 64)
}

// The services of a Moment.
const (
	ServiceAPI      = "api"
	ServiceFreezer  = "freezer"
	ServiceCloud    = "cloud"
	ServiceOperator = "operator"
	ServiceObjects  = "objects"
)

// Moment is one entry of the timeline: a request of the operator, or something that happened to it.
type Moment struct {
	// At is when it began, in seconds after the start of the run, and Seconds how long it took until it was answered, or 0
	// if it has no duration.
	At      float64 `json:"at"`
	Seconds float64 `json:"seconds"`
	// Service is the service that received the request: api, freezer or cloud. It is operator for events of the operator
	// itself, and objects for what the checks observed about objects in the cluster.
	Service string `json:"service"`
	// What describes in a few words what happened: "update icecreams/status sundae", "the operator was killed".
	What string `json:"what"`
	// Code is the HTTP status of the answer, even if a fault kept the answer from arriving. It is 0 if there was none.
	Code int `json:"code,omitempty"`
	// Fault is the fault that was injected, by its name in package faults. It is empty if there was none.
	Fault string `json:"fault,omitempty"`
}

// Forbidden is a kind of request that the API server refused with 403.
type Forbidden struct {
	Verb string `json:"verb"`
	// Group is empty for the core group.
	Group    string `json:"group"`
	Resource string `json:"resource"`
	// Subresource is empty for the resource itself.
	Subresource string `json:"subresource,omitempty"`
	// Count is the number of refused requests.
	Count int `json:"count"`
	// Marker is the line of Go that asks for the permission. Adding it is right only if the operator should send the
	// request.
	Marker string `json:"marker"`
}

// Diagnostic is a message of a compiler or generator about a position in the submission.
type Diagnostic struct {
	// File is slash-separated and relative to Submission.Dir. It is empty if the message names none. Line and Column count
	// from 1, and are 0 if unknown.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// Position returns file:line:col, as far as it is known.
func (d Diagnostic) Position() string {
	switch {
	case d.File == "" || d.Line == 0:
		return d.File
	case d.Column == 0:
		return fmt.Sprintf("%s:%d", d.File, d.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Column)
	}
}

// Number returns the lab's number as a person types it: 3 of 03-finalizer.
func (r *Report) Number() string {
	number, _, _ := strings.Cut(strings.TrimLeft(r.Lab, "0"), "-")
	return number
}

// Inconclusive reports whether there is no grade for a reason other than the submission.
func (r *Report) Inconclusive() bool {
	return r.Outcome == Error || r.Outcome == Interrupted || r.Outcome == Unfinished
}

// Of reports whether the report is of the submission in this folder, which is absolute.
func (r *Report) Of(dir string) bool {
	other := Report{Submission: Submission{Dir: dir}}
	other.Sanitize()
	return r.Submission.Dir == other.Submission.Dir
}

// Explained returns the failed check to work on next, or nil if none failed. It is the first one, or, if other failed
// checks name its cause, the one nearest to the cause.
func (r *Report) Explained() *Check {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Status == Failed })
	if i < 0 {
		return nil
	}
	explained := &r.Checks[i]
	for range r.Checks { // ends even if the causes in a stored report form a cycle
		cause := r.failedCause(explained)
		if cause == nil {
			break
		}
		explained = cause
	}
	return explained
}

// failedCause returns the check that names the cause of another one's failure, or nil if there is none.
func (r *Report) failedCause(check *Check) *Check {
	for _, id := range check.Causes {
		for i := range r.Checks {
			if r.Checks[i].ID == id && r.Checks[i].Status == Failed {
				return &r.Checks[i]
			}
		}
	}
	return nil
}

// AlsoFailed returns the other checks that failed, in their order.
func (r *Report) AlsoFailed() []*Check {
	var others []*Check
	explained := r.Explained()
	for i := range r.Checks {
		if check := &r.Checks[i]; check.Status == Failed && check != explained {
			others = append(others, check)
		}
	}
	return others
}

// Count returns the number of checks with this status.
func (r *Report) Count(status Status) int {
	n := 0
	for _, check := range r.Checks {
		if check.Status == status {
			n++
		}
	}
	return n
}

// FullMarks reports whether the run was graded and had checks, no check was left out because this machine can't decide
// it, and all of them passed except those of an extension. An exit code of 0 always means full marks.
func (r *Report) FullMarks() bool {
	passed := !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Extension && c.Status != Passed })
	return r.Outcome == Graded && len(r.Checks) > 0 && passed &&
		r.MaxScore > 0 && r.Score == r.MaxScore && r.Undecided == 0
}

// Partial explains why the score is not a grade although the run was completed: "--without-node skipped checks worth
// 25 points". It is empty if nothing was left out.
func (r *Report) Partial() string {
	if r.Undecided == 0 {
		return ""
	}
	return fmt.Sprintf("--without-node skipped checks worth %d points", r.Undecided)
}

// Complete reports whether the run has full marks and, if there is an extension, all of its points.
func (r *Report) Complete() bool { return r.FullMarks() && r.Count(Passed) == len(r.Checks) }

// Points returns the points of the run as a text for people: "92 of 100 points", and, if the submission has started
// the lab's extension, "and 4 of 10 of the extension". For an inconclusive run it returns "no grade".
func (r *Report) Points() string {
	if r.Inconclusive() {
		return "no grade"
	}
	text := fmt.Sprintf("%d of %d points", r.Score, r.MaxScore)
	if r.Undecided > 0 {
		text = fmt.Sprintf("%d of the %d points that this machine can decide", r.Score, r.MaxScore)
	}
	score, maxScore, begun := 0, 0, false
	for _, check := range r.Checks {
		if check.Extension {
			score, maxScore, begun = score+check.Points, maxScore+check.MaxPoints, begun || check.Status != Skipped
		}
	}
	if begun {
		text += fmt.Sprintf(", and %d of %d of the extension", score, maxScore)
	}
	return text
}

// Milestone is a part of a lab that is built in parts, with its points in one run.
type Milestone struct {
	Name              string
	Points, MaxPoints int
}

// Milestones returns the milestones whose checks were graded, in the order of the checks. A lab that is not built in
// parts has none.
func (r *Report) Milestones() []Milestone {
	var all []Milestone
	for _, check := range r.Checks {
		if check.Part == "" {
			continue
		}
		i := slices.IndexFunc(all, func(m Milestone) bool { return m.Name == check.Part })
		if i < 0 {
			i, all = len(all), append(all, Milestone{Name: check.Part})
		}
		all[i].Points += check.Points
		all[i].MaxPoints += check.MaxPoints
	}
	return all
}

// MilestonesText returns a line for people: "read 35 of 35, write 12 of 32, trust 0 of 28". The line is empty if
// fewer than two milestones were graded, because the score then shows the same, and if the run has no grade.
func (r *Report) MilestonesText() string {
	all := r.Milestones()
	if len(all) < 2 || r.Inconclusive() {
		return ""
	}
	texts := make([]string, len(all))
	for i, m := range all {
		texts[i] = fmt.Sprintf("%s %d of %d", m.Name, m.Points, m.MaxPoints)
	}
	return strings.Join(texts, ", ")
}

// Summary returns the result of the run in one line without a full stop at its end.
func (r *Report) Summary() string {
	score := r.Lab + ": " + r.Points()
	switch explained := r.Explained(); {
	case r.Outcome != Graded:
		return OneLine(fmt.Sprintf("%s, %s: %s", score, r.Outcome, r.Reason))
	case r.Complete():
		return fmt.Sprintf("%s, all %d checks passed", score, len(r.Checks))
	case explained != nil:
		return fmt.Sprintf("%s, %d of %d checks passed, fix first: %s", score, r.Count(Passed), len(r.Checks), explained.ID)
	default:
		return fmt.Sprintf("%s, %d of %d checks passed", score, r.Count(Passed), len(r.Checks))
	}
}
