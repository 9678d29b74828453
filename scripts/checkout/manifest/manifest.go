// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// File is the list of labs, and SchemaFile is its JSON Schema. Both are slash-separated and relative to the
// repository's root.
const (
	File       = "labs/labs.yaml"
	SchemaFile = "labs/labs.schema.json"
)

// Manifest is the list of all labs.
type Manifest struct {
	// Labs in the order in which they are done.
	Labs []Lab `json:"labs"`
}

// Lab describes one lab: what the student builds, and the checks that grade it.
type Lab struct {
	// Number is what a student types, such as 2 in `make lab-2`.
	Number int `json:"number"`
	// Name is the name of the folder below labs/, solutions/ and scripts/checks/, such as 02-reconciler.
	Name string `json:"name"`
	// Title is the lab's name for people, on one line.
	Title string `json:"title"`
	// Summary describes in one sentence what the student builds.
	Summary string `json:"summary"`
	// StartsFrom is the name of the lab whose solution this one begins with. It is empty if the lab begins from nothing.
	StartsFrom string `json:"startsFrom,omitempty"`
	// Lecture is the lecture's file, slash-separated and relative to the repository's root.
	Lecture string `json:"lecture"`
	// Teaches completes the sentence "after the lecture and the lab, you will know …".
	Teaches string `json:"teaches"`
	// Operator is false if only the API is graded. The program is then built but not run.
	Operator bool `json:"operator"`
	// Stage is where the operator runs if the cluster is embedded, unless a command says otherwise: Process (the default)
	// or Pod. In a lab whose stage is Deployed it runs nowhere else. Such a lab may have no operator (Operator is false),
	// and then deploys some other program.
	Stage Stage `json:"stage,omitempty"`
	// Services are the servers that run beside the cluster for the operator to call: freezer or cloud.
	Services []string `json:"services,omitempty"`
	// Addons are the add-ons that a run's cluster has, by their names in package known of clusters/addons. They are usable
	// before the submission is installed, and need a node.
	Addons []string `json:"addons,omitempty"`
	// Node is true if the operator is a process, and Pods of the objects that it creates must run. The embedded cluster
	// then has a node, and the nodes of a kind cluster have the course's images. A lab whose Stage is not Process has a
	// node anyway.
	Node bool `json:"node,omitempty"`
	// Webhooks is true if the lab is about the submission's admission webhooks, which are then registered. In other labs
	// they are not, so that webhooks beyond the lab can't break a submission.
	Webhooks bool `json:"webhooks,omitempty"`
	// Aggregated is true if the operator is an aggregated API server, which its APIService registers.
	Aggregated bool `json:"aggregated,omitempty"`
	// TimeLimit is for all checks of a run together.
	TimeLimit metav1.Duration `json:"timeLimit"`
	// Groups are the API groups of the kinds that the student builds.
	Groups []string `json:"groups"`
	// Tests is what the student's own tests must do, which `lab tests` grades with mutants. If it is nil, they are not
	// graded.
	Tests *OwnTests `json:"tests,omitempty"`
	// Extension is what the lab offers beyond its 100 points. If it is nil, there is no extension.
	Extension *Extension `json:"extension,omitempty"`
	// Preconditions are checks of an earlier lab that must pass before any check of this one runs. If it is nil, there are
	// none.
	Preconditions *Preconditions `json:"preconditions,omitempty"`
	// Checks are in the order in which they run. Their points, without the extension's, and those of Tests sum to 100.
	// Load puts the preconditions first.
	Checks []Check `json:"checks"`

	// Part is the part to which Limit, UpTo or WithoutNode has limited the lab. It is empty for the whole lab, and it is
	// not in the file.
	Part string `json:"-"`
	// Undecided are the checks that WithoutNode has left out.
	Undecided []Check `json:"-"`
}

// Stage is where an operator runs.
type Stage string

// The stages.
const (
	// Process is a process of this machine. A lab that names it is never graded as a Pod, regardless of the flags and the
	// cluster. A lab that names no stage is graded as a process if neither of them asks for a Pod.
	Process Stage = "process"
	// Pod is a Pod of the cluster, which needs a node.
	Pod Stage = "pod"
	// Deployed is a Pod of the cluster, too, but the checks deploy it. They get its image and its manifests, and decide
	// what is applied when. No faults are injected, and only the checks start or stop it.
	Deployed Stage = "deployed"
)

// Pods reports whether a stage needs a cluster with a node.
func (s Stage) Pods() bool { return s == Pod || s == Deployed }

// OwnTests is what the student's own tests must do to get points.
type OwnTests struct {
	// Find is the percentage of the lab's mutants that they must find, 1 to 100. Default: 80.
	Find int `json:"find,omitempty"`
	// Points are how many of the lab's 100 points are given for that. Default: none, and only `lab tests` grades them.
	Points int `json:"points,omitempty"`
}

// Extension is a second version of the lab's kinds, which a submission may have. Its checks come last and have points
// of their own.
type Extension struct {
	// Version is the version that the extension adds, such as v1beta1. It is held back until a check of the extension
	// upgrades the cluster.
	Version string `json:"version"`
}

// defaultFind is the percentage of mutants that tests must find unless the lab says otherwise.
const defaultFind = 80

// Percentage returns the percentage of the lab's mutants that the tests must find.
func (t *OwnTests) Percentage() int {
	if t == nil || t.Find == 0 {
		return defaultFind
	}
	return t.Find
}

// OwnTestsID is the ID of the check of the student's own tests, in a lab where they are worth points.
const OwnTestsID = "own-tests"

// OwnTests returns the check of the student's own tests, or nil in a lab where they are worth no points. It is not one
// of Checks, because no code of the lab's checks can decide it. The lab's lecture explains it under the heading "Your
// own tests".
func (l *Lab) OwnTests() *Check {
	if l.Tests == nil || l.Tests.Points == 0 {
		return nil
	}
	return &Check{
		ID: OwnTestsID,
		Title: fmt.Sprintf("Your own tests pass on your operator and on ours, and find %d %% of our wrong solutions",
			l.Tests.Percentage()),
		Points: l.Tests.Points, Lecture: l.Lecture + "#your-own-tests",
		Hints: []string{
			fmt.Sprintf("`make tests-%d` runs your tests on our operator and on all wrong solutions, "+
				"and lists which were found and by which test.", l.Number),
			"Go through the table of the task page: which of its lines is covered by none of your tests? " +
				"Break it in your operator, and see whether a test fails.",
			fmt.Sprintf("The mistake of a solution is described after two versions of your tests have missed it: "+
				"add a test, run `make tests-%d` again, and look at those that now have a name. "+
				"docs/guides/testing-operators.md explains how to find more.", l.Number),
		},
	}
}

// NeedsNode reports whether a run of the lab needs a cluster in which Pods run, if its operator runs at this stage.
func (l *Lab) NeedsNode(at Stage) bool { return l.Node || at.Pods() }

// Preconditions are named by the lab whose checks they are.
type Preconditions struct {
	Lab    string   `json:"lab"`
	Checks []string `json:"checks"`
}

// Check is one requirement for a submission.
type Check struct {
	// ID is unique within the lab, in kebab-case.
	ID string `json:"id"`
	// Title is a sentence for the student. It is true when the check passes.
	Title string `json:"title"`
	// Part names the part of the lab to which the check belongs, in a lab that is built in parts. It is empty in other
	// labs, and for a check that concerns only the whole lab.
	Part string `json:"part,omitempty"`
	// Step is the last step of the lab, counted from 1, that must be done before the check can pass. It is 0 in a lab
	// without numbered steps.
	Step int `json:"step,omitempty"`
	// Extension is true for a check of the lab's extension.
	Extension bool `json:"extension,omitempty"`
	// Node is true for a check that observes what Pods do. In a lab whose operator is a process, the other checks look
	// only at objects.
	Node bool `json:"node,omitempty"`
	// Points are those of the lab's 100, or of its extension's. They are 0 for a precondition.
	Points int `json:"points"`
	// Needs are the IDs of earlier checks of the same lab. This one is skipped if any of them has not passed.
	Needs []string `json:"needs,omitempty"`
	// Causes are the IDs of checks of the same lab that name the cause when this check fails and they fail too. The
	// likeliest comes first. They run even if a check that they need has failed. They are then reported as skipped unless
	// they find something.
	Causes []string `json:"causes,omitempty"`
	// Lecture is the heading that explains this check: file#anchor, from the repository's root.
	Lecture string `json:"lecture"`
	// Hints reveal more and more. There are at least two.
	Hints []string `json:"hints"`
}

// Precondition reports whether this is a check of an earlier lab. Such a check has no points, runs before the operator
// is started, and is needed by all other checks.
func (c Check) Precondition() bool { return c.Points == 0 }

// Lab finds a lab by any of its names: "2", "02", "02-reconciler" or "reconciler".
func (m *Manifest) Lab(ref string) (*Lab, error) {
	number, err := strconv.Atoi(ref)
	isNumber := err == nil
	for i := range m.Labs {
		lab := &m.Labs[i]
		if ref == lab.Name || ref == lab.ShortName() || (isNumber && number == lab.Number) {
			return lab, nil
		}
	}
	known := make([]string, len(m.Labs))
	for i, lab := range m.Labs {
		known[i] = fmt.Sprintf("%d (%s)", lab.Number, lab.Name)
	}
	return nil, fmt.Errorf("there is no lab %q; the labs are %s", ref, english.WordSeries(known, "and"))
}

// Named finds labs by their numbers or names, each once. Without names it returns all labs.
func (m *Manifest) Named(refs []string) (labs []*Lab, err error) {
	for _, ref := range refs {
		lab, err := m.Lab(ref)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(labs, lab) {
			labs = append(labs, lab)
		}
	}
	for i := range m.Labs {
		if len(refs) == 0 {
			labs = append(labs, &m.Labs[i])
		}
	}
	return labs, nil
}

// ShortName returns the name without its number: reconciler for 02-reconciler.
func (l *Lab) ShortName() string {
	_, short, _ := strings.Cut(l.Name, "-")
	return short
}

// Check finds a check of the lab by its ID.
func (l *Lab) Check(id string) (*Check, error) {
	for i := range l.Checks {
		if l.Checks[i].ID == id {
			return &l.Checks[i], nil
		}
	}
	known := make([]string, len(l.Checks))
	for i, check := range l.Checks {
		known[i] = check.ID
	}
	return nil, fmt.Errorf("lab %s has no check %q; its checks are %s", l.Name, id, english.WordSeries(known, "and"))
}

// Parts returns the names of the lab's parts in their order. There are none if the lab is not built in parts.
func (l *Lab) Parts() (names []string) {
	for _, check := range l.Own() {
		if check.Part != "" && !slices.Contains(names, check.Part) {
			names = append(names, check.Part)
		}
	}
	return names
}

// Limit returns the lab with the checks of one part, as if the parts before it were done: checks of other parts do not
// block these.
func (l *Lab) Limit(part string) (*Lab, error) {
	switch parts := l.Parts(); {
	case len(parts) == 0:
		return nil, fmt.Errorf("lab %s is not built in parts", l.Name)
	case !slices.Contains(parts, part):
		return nil, fmt.Errorf("lab %s has no part %q; its parts are %s", l.Name, part, english.WordSeries(parts, "and"))
	}
	limited := l.limitedTo(func(check Check) bool { return check.Part == part })
	limited.Part, limited.Title = part, l.Title+", part "+part
	return limited, nil
}

// UpTo returns the lab with the checks of its steps from the first one to this one.
func (l *Lab) UpTo(step int) (*Lab, error) {
	switch last := l.Steps(); {
	case last == 0:
		return nil, fmt.Errorf("the checks of lab %s do not belong to numbered steps", l.Name)
	case step < 1 || step > last:
		return nil, fmt.Errorf("lab %s has no step %d: it has the steps 1 to %d", l.Name, step, last)
	}
	limited := l.limitedTo(func(check Check) bool { return check.Step > 0 && check.Step <= step })
	limited.Part, limited.Title = fmt.Sprint(step), fmt.Sprintf("%s, steps 1 to %d", l.Title, step)
	return limited, nil
}

// WithoutNode returns the lab with the checks that a cluster without a node can decide.
func (l *Lab) WithoutNode() (*Lab, error) {
	needs := func(check Check) bool { return check.Node }
	switch {
	case !l.NeedsNode(l.Stage):
		return nil, fmt.Errorf("lab %s needs no node: leave out --without-node", l.Name)
	case !slices.ContainsFunc(l.Checks, needs):
		return nil, fmt.Errorf("no check of lab %s can be decided without a node: leave out --without-node", l.Name)
	}
	limited := l.limitedTo(func(check Check) bool { return !check.Node })
	limited.Part, limited.Title, limited.Node = "without a node", l.Title+", without a node", false
	limited.Undecided = slices.DeleteFunc(slices.Clone(l.Checks), func(check Check) bool { return !check.Node })
	return limited, nil
}

// Steps returns the number of the last step to which a check of the lab belongs, or 0 if there are no steps.
func (l *Lab) Steps() (last int) {
	for _, check := range l.Checks {
		last = max(last, check.Step)
	}
	return last
}

// limitedTo returns the lab with some of its checks, and its preconditions.
func (l *Lab) limitedTo(keep func(Check) bool) *Lab {
	limited := *l
	limited.Checks = nil
	other := func(id string) bool {
		check, err := l.Check(id)
		return err != nil || !keep(*check)
	}
	for _, check := range l.Checks {
		if !keep(check) && !check.Precondition() {
			continue
		}
		check.Needs = slices.DeleteFunc(slices.Clone(check.Needs), other)
		check.Causes = slices.DeleteFunc(slices.Clone(check.Causes), other)
		limited.Checks = append(limited.Checks, check)
	}
	return &limited
}

// AddonsOf returns the add-ons of labs, sorted and without duplicates.
func AddonsOf(labs ...*Lab) []string {
	var names []string
	for _, lab := range labs {
		names = append(names, lab.Addons...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Own returns the checks of the lab without its preconditions.
func (l *Lab) Own() []Check {
	return slices.DeleteFunc(slices.Clone(l.Checks), Check.Precondition)
}

// FullScore returns how many points the lab has: those of all checks, and those of the student's own tests.
func (l *Lab) FullScore() int {
	sum := l.MaxScore()
	if own := l.OwnTests(); own != nil {
		sum += own.Points
	}
	return sum
}

// MaxScore returns the sum of the points of all checks except the extension's.
func (l *Lab) MaxScore() int {
	sum := 0
	for _, check := range l.Checks {
		if !check.Extension {
			sum += check.Points
		}
	}
	return sum
}

// Needed returns the checks that must have passed before one can run: the preconditions of the lab, and the checks that
// it names. It returns an error for an ID that the lab does not have.
func (l *Lab) Needed(id string) ([]string, error) {
	check, err := l.Check(id)
	if err != nil {
		return nil, err
	}
	return slices.Concat(l.before(id), check.Needs), nil
}

// before returns the preconditions of a check.
func (l *Lab) before(id string) (ids []string) {
	for _, check := range l.Checks {
		if check.ID == id || !check.Precondition() {
			break
		}
		ids = append(ids, check.ID)
	}
	return ids
}

// StartingWith returns the checks of the lab with one of them first, after the preconditions and the checks that it
// needs. The others keep the order of the list. An ID that the lab does not have changes nothing. Neither does a check
// of the extension, because the other checks do not expect its changes, such as those of a kind's versions.
func (l *Lab) StartingWith(id string) []Check {
	if check, err := l.Check(id); err == nil && check.Extension {
		return l.Checks
	}
	first := map[string]bool{id: true}
	for _, check := range slices.Backward(l.Checks) {
		switch {
		case check.Precondition():
			first[check.ID] = true
		case first[check.ID]:
			for _, need := range check.Needs {
				first[need] = true
			}
		}
	}
	var before, after []Check
	for _, check := range l.Checks {
		if first[check.ID] {
			before = append(before, check)
		} else {
			after = append(after, check)
		}
	}
	return slices.Concat(before, after)
}

// Dependents returns the IDs of all checks that are skipped when this one fails, including those that need it only
// through others, in the order of the list.
func (l *Lab) Dependents(id string) []string {
	var dependents []string
	for _, check := range l.Checks {
		// One pass is enough: a check needs only earlier ones.
		if slices.ContainsFunc(slices.Concat(l.before(check.ID), check.Needs), func(need string) bool {
			return need == id || slices.Contains(dependents, need)
		}) {
			dependents = append(dependents, check.ID)
		}
	}
	return dependents
}
