// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package icecream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/draw"
	"lva.io/operators/scripts/checks/order"
)

// wish is an icecream to create. If an old one is named, it is a change of that one's spec. It is always a dry run, so
// that hundreds of them leave nothing behind.
type wish struct {
	order.Order
	old *order.Order
}

// stored holds icecreams that the examples have left behind: very different icecreams must be changeable.
var (
	plain         = order.Order{Name: "no-topping", Spec: order.Spec{Flavour: []string{"vanilla"}}}
	threeToppings = order.Order{Name: "three-toppings", Spec: order.Spec{
		Flavour: []string{"vanilla", "matcha"}, Topping: []string{"cream", "cherry", "nuts"},
	}}
)

// drawWish draws a wish for a spec. Half of the wishes create an icecream, and the other half change an existing one.
func drawWish(random *rand.Rand, number, half int, spec order.Spec) wish {
	if number >= half {
		old := plain
		if random.IntN(2) == 0 {
			old = threeToppings
		}
		return wish{Order: order.Order{Name: old.Name, Spec: spec}, old: &old}
	}
	w := wish{Order: order.Order{Spec: spec}}
	w.Call(number)
	return w
}

// smaller returns simpler wishes.
func (w wish) smaller() (smaller []wish) {
	simple := wish{Order: order.Order{Name: "icecream", Spec: w.Spec}}
	switch {
	case w.old != nil && w.old.Name == threeToppings.Name:
		smaller = append(smaller, simple, wish{Order: order.Order{Name: plain.Name, Spec: w.Spec}, old: &plain})
	case w.old != nil || w.Name != simple.Name:
		smaller = append(smaller, simple)
	}
	if w.old == nil && len(w.Name) > len(simple.Name) { // the length of the name may be the cause
		shorter := w
		shorter.Name = strings.TrimRight(w.Name[:len(w.Name)-1], ".-")
		smaller = append(smaller, shorter)
	}
	for _, spec := range w.Spec.Smaller() {
		less := w
		less.Spec = spec
		smaller = append(smaller, less)
	}
	return smaller
}

// String returns the wish as the beginning of a sentence.
func (w wish) String() string {
	if w.old != nil {
		return fmt.Sprintf("a change of %s, an icecream %s, to one %s", w.old.Name, w.old.Spec.Words(), w.Spec.Words())
	}
	name := w.Name
	if len(name) > 40 {
		name = fmt.Sprintf("%s… (%d characters)", name[:20], len(name))
	}
	return fmt.Sprintf("the icecream %s %s", name, w.Spec.Words())
}

// script returns the wish for a shell.
func (w wish) script() (lines []string) {
	if w.old != nil {
		lines = w.old.Script("")
	}
	return append(lines, w.Script("--dry-run=server")...)
}

// send asks the API server what it would store.
func (v visit) send(ctx context.Context, w wish) (*unstructured.Unstructured, error) {
	if w.old == nil {
		return v.icecreams.Create(ctx, w.Object(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	object, err := v.icecreams.Get(ctx, w.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	object.Object["spec"] = w.Spec.Object()
	if w.Spec.Absent {
		delete(object.Object, "spec")
	}
	return v.icecreams.Update(ctx, object, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
}

// judge sends a wish and returns the observation. An error is internal: no answer came from the API server.
func (v visit) judge(
	ctx context.Context, w wish, judge func(*unstructured.Unstructured, error) string,
) (string, error) {
	object, err := v.send(ctx, w)
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
		return "", fmt.Errorf("sending a request to the API server: %w", err)
	}
	return judge(object, err), nil
}

// hold fails unless a property holds for all wishes that the seed of the run draws.
func (v visit) hold(
	expected string, count int, draws func(*rand.Rand, int) wish, try func(context.Context, wish) (string, error),
) {
	v.t.Helper()
	property := draw.Property[wish]{Name: v.ID, Count: count, Draw: draws, Try: try, Smaller: wish.smaller}
	found, err := property.Searches(v.ctx, v.Seed, v.Stories)
	v.OK(v.t, "trying icecreams that are drawn at random", err)
	if found != nil {
		v.Fail(v.t, expected, fmt.Sprintf("%s: %s", found.Case, found.Observed), found.Case.script()...)
	}
}

// acceptsAll is the step that checks that everything that the task allows is accepted.
func acceptsAll(v visit) {
	draws := func(random *rand.Rand, number int) wish {
		return drawWish(random, number, order.ValidSpecs, order.Valid(random, number%order.ValidSpecs))
	}
	v.hold("every icecream that the task allows is accepted, and reads back as it was written", 2*order.ValidSpecs, draws,
		func(ctx context.Context, w wish) (string, error) {
			if len(w.Spec.Breaks()) > 0 {
				return "", nil
			}
			return v.judge(ctx, w, func(object *unstructured.Unstructured, err error) string {
				if err != nil {
					return "it is rejected: " + err.Error()
				}
				if got, want := object.Object["spec"], any(w.Spec.Object()); !reflect.DeepEqual(got, want) {
					return fmt.Sprintf("it reads back as %v", got)
				}
				return ""
			})
		})
}

// ruleCheck is a rule with the words that messages use for it.
type ruleCheck struct {
	order.Rule
	// expected describes what happens to all icecreams that break it.
	expected string
	// subject matches what the message must mention, which may be the path of the field. words match how it may name the
	// rule.
	subject, words *regexp.Regexp
}

// The first words are those of the schema. The others are for students who write the rule as an expression, with a
// message.
var (
	toppingsMaxRule = ruleCheck{
		order.ToppingsMax, "every icecream with more than three toppings is rejected, " +
			"and the message says that there are at most three",
		regexp.MustCompile(`(?i)topping`), regexp.MustCompile(`(?i)\b(3|three)\b|(fewer|less) than (4|four)\b`),
	}
	toppingsUniqueRule = ruleCheck{
		order.ToppingsUnique, "every icecream with a topping twice is rejected, and the message says that it is a duplicate",
		regexp.MustCompile(`(?i)topping`), uniqueWords,
	}
	flavoursUniqueRule = ruleCheck{
		order.FlavoursUnique, "every icecream with a flavour twice is rejected, and the message says that it is a duplicate",
		regexp.MustCompile(`(?i)flavou?r`), uniqueWords,
	}
	flavourRequiredRule = ruleCheck{
		order.FlavourRequired, "every icecream without a flavour is rejected, and the message says that one is needed",
		regexp.MustCompile(`(?i)flavou?r|\bspec\b`),
		regexp.MustCompile(`(?i)requir|at least|\bneeds?\b|missing|\bempty\b|without|must (have|be|contain|specify)|` +
			`should have|no flavou?r|minimum|one or more`),
	}
	uniqueWords = regexp.MustCompile(`(?i)duplicate|unique|twice|(more than|only|at most) once|distinct|repeat|different|the same`)
)

// rejectsAll returns the step that checks that everything that breaks a rule is refused.
func rejectsAll(l ruleCheck) func(context.Context, *testing.T, *check.Check) {
	return assess(func(v visit) {
		draws := func(random *rand.Rand, number int) wish {
			w := drawWish(random, number, order.Breakings, order.Breaking(random, number%order.Breakings, l.Rule))
			w.Name = "icecream" // another check finds limits on names
			if w.old != nil {
				w.old = &sample
				w.Name = sample.Name
			}
			return w
		}
		_, err := v.icecreams.Create(v.ctx, sample.Object(), metav1.CreateOptions{})
		v.OK(v.t, "creating the sample of the lecture", err)
		v.hold(l.expected, 2*order.Breakings, draws, func(ctx context.Context, w wish) (string, error) {
			if broken := w.Spec.Breaks(); len(broken) != 1 || broken[0] != l.Rule {
				return "", nil
			}
			refusal := error(nil)
			observed, err := v.judge(ctx, w, func(_ *unstructured.Unstructured, err error) string {
				refusal = err
				return l.judge(err)
			})
			if err != nil || observed == "" || refusal == nil {
				return observed, err
			}
			// An operator may refuse it for another reason. Another check finds that.
			repaired := w
			repaired.Spec = w.Spec.Repaired()
			if _, err := v.send(ctx, repaired); err != nil {
				return "", nil //nolint:nilerr // that it is refused is what was to be found out
			}
			return observed, nil
		})
	})
}

// sample is an icecream that another check has seen accepted.
var sample = order.Order{Name: "stored", Spec: order.Spec{
	Flavour: []string{"matcha", "vanilla"}, Topping: []string{"cream", "coconutflakes", "watermelon"},
}}

// judge returns what is wrong with the answer to an icecream that breaks the rule. Empty: nothing is.
func (l ruleCheck) judge(err error) string {
	if err == nil {
		return "it is accepted"
	}
	if !apierrors.IsInvalid(err) {
		return "the request failed for another reason: " + err.Error()
	}
	var status apierrors.APIStatus
	errors.As(err, &status)
	for _, cause := range status.Status().Details.Causes {
		// A student who writes the rule as an expression chooses the message, and not always the field.
		if l.subject.MatchString(cause.Field+": "+cause.Message) && l.words.MatchString(cause.Message) {
			return ""
		}
	}
	return "it is rejected, but the message does not name the rule: " + err.Error()
}
