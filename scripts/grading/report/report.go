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

// Schema names the version of the JSON. A change that a reader of the old one would trip over gets a new number.
const Schema = "operator-labs/report/v4"

// Outcome says how a run ended. Only Graded means that the checks have decided.
type Outcome string

const (
	// Graded means that all checks were decided: passed, failed or skipped since another one failed.
	Graded Outcome = "graded"
	// NotBuilt means that the submission does not compile: see Diagnostics.
	NotBuilt Outcome = "not-built"
	// NotGenerated means that the markers or CRDs can't be used: no manifests come of them, or the API server refuses
	// them.
	NotGenerated Outcome = "not-generated"
	// NotStarted means that the operator hangs or exits before it watches anything.
	NotStarted Outcome = "not-started"
	// Crashed means that the operator ended while it was graded.
	Crashed Outcome = "crashed"
	// Flooded means that the operator wrote more log than is allowed.
	Flooded Outcome = "flooded"
	// TimedOut means that the lab's time limit ended the run.
	TimedOut Outcome = "timed-out"
	// Unfinished means that the run still goes on, or was killed: its report is written when it begins.
	Unfinished Outcome = "unfinished"
	// Interrupted means that a person or the system ended the run.
	Interrupted Outcome = "interrupted"
	// Error means that the harness failed. It says nothing of the submission.
	Error Outcome = "error"
)

// Outcomes are all there are.
var Outcomes = []Outcome{Graded, NotBuilt, NotGenerated, NotStarted, Crashed, Flooded, TimedOut, Unfinished, Interrupted, Error}

// Headline is what an outcome means to a student, in a few words.
func (o Outcome) Headline() string {
	switch o {
	case Graded:
		return "It was graded"
	case NotBuilt:
		return "It does not build"
	case NotGenerated:
		return "No usable manifests come of it"
	case NotStarted:
		return "The operator did not start"
	case Crashed:
		return "The operator crashed"
	case Flooded:
		return "The operator flooded its log"
	case TimedOut:
		return "The time was up"
	case Unfinished:
		return "The run has not ended"
	case Interrupted:
		return "The run was interrupted"
	case Error:
		return "It could not be graded"
	}
	return string(o)
}

// Status says how one check ended.
type Status string

// A check that did not run, for whatever reason, is skipped and has no points.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Report is what is known of one grading run. It is written in every case, also when the submission does not build.
type Report struct {
	// Schema is the constant of this name; Sanitize sets it.
	Schema string `json:"schema"`
	// Lab is the lab's name, as 02-reconciler, and Title the one for people.
	Lab        string     `json:"lab"`
	Title      string     `json:"title"`
	Submission Submission `json:"submission"`
	Outcome    Outcome    `json:"outcome"`
	// Reason is one sentence, for every outcome but Graded.
	Reason string `json:"reason,omitempty"`
	// Started in UTC, to the millisecond.
	Started time.Time `json:"started"`
	// Seconds from the start to the end of the run.
	Seconds float64 `json:"seconds"`
	// Seed is what all that is random in the run was made from, such as its faults; the same seed makes the same. 0 if
	// nothing was checked.
	Seed uint32 `json:"seed,omitempty"`
	// Score is the sum of the points of Checks, without those of an extension. It is a grade only where Outcome is Graded:
	// see FullMarks.
	Score    int `json:"score"`
	MaxScore int `json:"maxScore"`
	// Undecided are the points of checks that were left out because this machine can't decide them: MaxScore and Checks
	// are without them, so Score is no grade.
	Undecided   int         `json:"undecided,omitempty"`
	Environment Environment `json:"environment"`
	// Steps are what was done before the checks, in the order in which they ended. Some run side by side, so their times
	// do not sum to Seconds.
	Steps []Step `json:"steps"`
	// Checks in the order of labs.yaml. Those that a run never came to are in it too, as skipped.
	Checks []Check `json:"checks"`
	// Forbidden are the requests of the operator that its role does not allow.
	Forbidden []Forbidden `json:"forbidden,omitempty"`
	// Notices are what a student should know and no check decides, a sentence each.
	Notices []string `json:"notices,omitempty"`
	// Diagnostics are what compiler and generators say, in their order.
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
	// Module is its path in go.mod; this and the versions are empty where go.mod could not be read.
	Module            string `json:"module,omitempty"`
	Go                string `json:"go,omitempty"`
	ControllerRuntime string `json:"controllerRuntime,omitempty"`
	// Arguments are those with which its program was started: the command that its Deployment names, and of the flags that
	// it names in its help, those that keep it from listening where another program may.
	Arguments []string `json:"arguments,omitempty"`
}

// Environment is where it was graded.
type Environment struct {
	// Cluster is the kind of cluster: embedded, kind or existing.
	Cluster    string `json:"cluster"`
	Kubernetes string `json:"kubernetes,omitempty"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPUs       int    `json:"cpus"`
	// Containment is by what everything is ended that the submission has started on this machine: namespaces, supervisor
	// or group. It is empty if it started nothing here.
	Containment string `json:"containment,omitempty"`
	// Walls are those that every program of the submission on this machine was shut in by: private root, files, network,
	// system calls. They are empty if it ran none, or no wall stood.
	Walls []string `json:"walls,omitempty"`
}

// Step is one step on the way to the checks.
type Step struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Check is how one check ended.
type Check struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status Status `json:"status"`
	// Extension is true of a check of the lab's extension, whose points are not part of the Score.
	Extension bool `json:"extension,omitempty"`
	// Part names the milestone to which the check belongs, in a lab that is built in parts. It is empty in others.
	Part string `json:"part,omitempty"`
	// Points are MaxPoints if it passed and 0 otherwise: a check has no half. A precondition, which is a check of an
	// earlier lab and listed only if it failed, has 0 of 0.
	Points    int `json:"points"`
	MaxPoints int `json:"maxPoints"`
	// At is when it began, in seconds after the start of the run; 0 if it did not run.
	At      float64 `json:"at,omitempty"`
	Seconds float64 `json:"seconds"`
	// Expected and Observed belong to a failed check.
	Expected string `json:"expected,omitempty"`
	Observed string `json:"observed,omitempty"`
	// Evidence is what led to it, a line each: panics and errors from the operator's log, and its requests.
	Evidence []string `json:"evidence,omitempty"`
	// Measurements are figures that the check took, in its order. No points depend on them.
	Measurements []Measurement `json:"measurements,omitempty"`
	// Reason says why it was skipped.
	Reason string `json:"reason,omitempty"`
	// Lecture is the heading that explains the check: file#anchor.
	Lecture string `json:"lecture,omitempty"`
	// Causes are ids of checks that name the cause when this check fails and they fail too. The likeliest comes first.
	Causes []string `json:"causes,omitempty"`
}

// Measurement is a figure: p99 of an admission, 4.2 ms.
type Measurement struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Unit is empty for a count.
	Unit string `json:"unit,omitempty"`
}

// String is the figure in one line, with as many digits as a person can use.
func (m Measurement) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", m.Name, significant(m.Value), m.Unit))
}

// significant writes three digits that count, and a large number whole unless it would be unreadable.
func significant(value float64) string {
	size := math.Abs(value)
	switch {
	case size >= 1e12 || size > 0 && size < 1e-6:
		return strconv.FormatFloat(value, 'g', 3, 64)
	case size >= 100:
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	three, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 3, 64), 64) // of our own making
	return strconv.FormatFloat(three, 'f', -1, 64)
}

// Services that a Moment can be of.
const (
	ServiceAPI      = "api"
	ServiceFreezer  = "freezer"
	ServiceCloud    = "cloud"
	ServiceOperator = "operator"
	ServiceObjects  = "objects"
)

// Moment is one entry of the timeline: a request of the operator, or something that happened to it.
type Moment struct {
	// At is when it began, in seconds after the start of the run, and Seconds how long it took until it was answered; 0
	// for what has no length.
	At      float64 `json:"at"`
	Seconds float64 `json:"seconds"`
	// Service is whom the request went to: api, freezer or cloud; operator for what happened to the operator itself, and
	// objects for what the checks saw of objects in the cluster.
	Service string `json:"service"`
	// What in a few words: "update icecreams/status sundae", "the operator was killed".
	What string `json:"what"`
	// Code is the HTTP status of the answer, also of one that a fault let never arrive; 0 if there was none.
	Code int `json:"code,omitempty"`
	// Fault that hit it, as package faults names it; empty if none did.
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
	// Count of refused requests.
	Count int `json:"count"`
	// Marker is the line of Go that asks for the permission. It is right only if the request is.
	Marker string `json:"marker"`
}

// Diagnostic is what a compiler or generator says of a place in the submission.
type Diagnostic struct {
	// File is slash-separated, from Submission.Dir; empty where none is named. Line and Column count from 1; 0 is unknown.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// Position is file:line:col, as far as it is known.
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

// Number is the lab's number as a person types it: 3 of 03-finalizer.
func (r *Report) Number() string {
	number, _, _ := strings.Cut(strings.TrimLeft(r.Lab, "0"), "-")
	return number
}

// SaysNothing is true if the submission is not the reason why there is no grade.
func (r *Report) SaysNothing() bool {
	return r.Outcome == Error || r.Outcome == Interrupted || r.Outcome == Unfinished
}

// Of reports whether the report is of the submission in this folder, which is absolute.
func (r *Report) Of(dir string) bool {
	other := Report{Submission: Submission{Dir: dir}}
	other.Sanitize()
	return r.Submission.Dir == other.Submission.Dir
}

// Explained is the failed check to work on next, or nil if none failed: the first one, or where others that failed name
// its cause, the one nearest to that.
func (r *Report) Explained() *Check {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Status == Failed })
	if i < 0 {
		return nil
	}
	explained := &r.Checks[i]
	for range r.Checks { // not for ever, whatever a stored report says
		cause := r.failedCause(explained)
		if cause == nil {
			break
		}
		explained = cause
	}
	return explained
}

// failedCause is the check that names the cause of another one's failure; nil if none does.
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

// AlsoFailed are the other checks that failed, in their order.
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

// Count is how many checks ended so.
func (r *Report) Count(status Status) int {
	n := 0
	for _, check := range r.Checks {
		if check.Status == status {
			n++
		}
	}
	return n
}

// FullMarks is true if the run was graded, had checks, none was left out because this machine can't decide it, and all
// of them passed but for those of an extension. An exit code of 0 means this and nothing less.
func (r *Report) FullMarks() bool {
	passed := !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.Extension && c.Status != Passed })
	return r.Outcome == Graded && len(r.Checks) > 0 && passed && r.MaxScore > 0 && r.Score == r.MaxScore && r.Undecided == 0
}

// Partial says why the score is no grade although the run has come to its end: "--without-node has left out checks
// worth 25 points". It is empty if nothing was left out.
func (r *Report) Partial() string {
	if r.Undecided == 0 {
		return ""
	}
	return fmt.Sprintf("--without-node has left out checks worth %d points", r.Undecided)
}

// Complete is true of full marks with all of the extension, if there is one.
func (r *Report) Complete() bool { return r.FullMarks() && r.Count(Passed) == len(r.Checks) }

// Points are those of the run for people: "92 of 100 points", and, if it has started the lab's extension, "and 4 of 10
// of the extension". A run that says nothing of the submission has "no grade".
func (r *Report) Points() string {
	if r.SaysNothing() {
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

// Milestones returns those whose checks were graded, in the order of the checks. In a lab that is not built in parts
// there are none.
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

// MilestonesText is a line for people: "read 35 of 35, write 12 of 32, trust 0 of 28". It is empty if fewer than two
// milestones were graded, because the score says the same then, and if the run has no grade.
func (r *Report) MilestonesText() string {
	all := r.Milestones()
	if len(all) < 2 || r.SaysNothing() {
		return ""
	}
	texts := make([]string, len(all))
	for i, m := range all {
		texts[i] = fmt.Sprintf("%s %d of %d", m.Name, m.Points, m.MaxPoints)
	}
	return strings.Join(texts, ", ")
}

// Summary is the run in one line without a full stop at its end.
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
