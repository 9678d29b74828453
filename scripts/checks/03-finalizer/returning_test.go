// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/checks/story"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
)

func returned() types.Feature {
	return features.New("ingredients are returned").
		Assess("what is no longer wanted", check.Assess(assess(func(v visit) {
			o := v.createIcecream("date", []string{"date"}, "cream", "nuts", "fudge")
			v.has("the ingredients of date are taken",
				patience, o, "flavour date", "topping cream", "topping nuts", "topping fudge")
			v.change(o, `{"spec":{"topping":["cherry"]}}`)
			v.has("when date gets the topping cherry instead of cream, nuts and fudge, those are returned and cherry is taken",
				patience, o, "flavour date", "topping cherry")
			v.change(o, `{"spec":{"topping":["cherry","cream"]}}`)
			v.has("when date gets cream again, cream is taken again",
				patience, o, "flavour date", "topping cherry", "topping cream")
			v.delete(o)
			v.awaitDeleted("when date is deleted, what it has out is returned, and date is gone", patience, o)
		}))).
		Assess("of one that is deleted, however that is asked for", check.Assess(assess(func(v visit) {
			forced, foreground := v.createIcecream("elder", []string{"elder"}, "cream"),
				v.createIcecream("fig", []string{"fig"}, "cream")
			v.has("the ingredients of elder are taken", patience, forced, "flavour elder", "topping cream")
			v.has("the ingredients of fig are taken", patience, foreground, "flavour fig", "topping cream")
			// These are the deletions of kubectl with --force --grace-period=0, and with --cascade=foreground.
			v.OK(v.t, "deleting elder",
				v.Client.Delete(v.ctx, forced.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
			propagation := metav1.DeletePropagationForeground
			v.OK(v.t, "deleting fig",
				v.Client.Delete(v.ctx, foreground.name, metav1.DeleteOptions{PropagationPolicy: &propagation}))
			v.awaitDeleted("when elder is deleted by force, its ingredients are returned all the same, and elder is gone",
				patience, forced)
			v.until("when fig is deleted in the foreground, "+
				"its ingredients are returned and the finalizer is removed", patience, func() (string, bool) {
				now, exists := v.find(foreground)
				out := v.account(foreground).Out()
				return fmt.Sprintf("fig has %s out of the freezer, and %s", story.List(out), finalizersOf(now.finalizers)),
					len(out) == 0 && (!exists || !now.hasFinalizer())
			})
			v.removeFinalizer(foreground, metav1.FinalizerDeleteDependents)
			v.awaitDeleted("fig is gone once it has no finalizers", patience, foreground)
		}))).Feature()
}

// watchDelay is how late the operator's watch reports changes while it is behind.
const watchDelay = 500 * time.Millisecond

// pitayas are icecreams that get a finalizer of another controller while the watch is behind. One is enough unless the
// machine is too busy.
var pitayas = []string{"pitaya-1", "pitaya-2", "pitaya-3"}

// firstWrite returns when the operator first sent a write of an icecream, other than of its status.
func (v visit) firstWrite(o order) time.Time {
	v.t.Helper()
	resource := icecream.Resource.GroupResource()
	for _, e := range v.Audit.Since(0,
		v.OperatorRequests().And(audit.Writes, audit.On(resource.Group, resource.Resource))) {
		if e.Name == o.name && e.Subresource == "" {
			return e.Time
		}
	}
	return time.Time{}
}

// neverWithout fails an operator that removed another controller's finalizer, even if it restored the finalizer later.
func (v visit) neverWithout(expected string, o order, since time.Time) {
	v.t.Helper()
	resource := icecream.Resource.GroupResource()
	for _, e := range v.Audit.Since(0,
		v.OperatorRequests().And(audit.Writes, audit.On(resource.Group, resource.Resource))) {
		var stored struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if e.Name != o.name || e.Code >= 300 || e.Time.Before(since) || json.Unmarshal(e.Response, &stored) != nil {
			continue
		}
		if finalizers := stored.Metadata.Finalizers; !slices.Contains(finalizers, foreign) {
			v.fail(expected, fmt.Sprintf("after the operator's write of %s %s", clock(e.Time), finalizersOf(finalizers)))
		}
	}
}

// addFinalizer adds a finalizer of another controller, as that controller would.
func (v visit) addFinalizer(o order, finalizer string) {
	v.t.Helper()
	for {
		object, err := v.Client.Get(v.ctx, o.name, metav1.GetOptions{})
		v.OK(v.t, "reading an icecream", err)
		object.SetFinalizers(append(object.GetFinalizers(), finalizer))
		if _, err = v.Client.Update(v.ctx, object, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			v.OK(v.t, "adding the finalizer "+finalizer, err)
			return
		}
	}
}

// removeFinalizer removes a finalizer of another controller, as that controller would. The garbage collector removes
// the finalizer of a foreground deletion by itself, but may take half a minute to discover a new kind.
func (v visit) removeFinalizer(o order, finalizer string) {
	v.t.Helper()
	for {
		object, err := v.Client.Get(v.ctx, o.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !slices.Contains(object.GetFinalizers(), finalizer) {
			return
		}
		v.OK(v.t, "reading an icecream", err)
		object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(f string) bool { return f == finalizer }))
		_, err = v.Client.Update(v.ctx, object, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			v.OK(v.t, "removing the finalizer "+finalizer, err)
		}
	}
}

func toppingsFirst() types.Feature {
	return feature("toppings before flavours", "when an icecream is deleted", func(v visit) {
		const expected = "when an icecream is deleted, its toppings are returned before its flavours"
		o := v.createIcecream("grape", []string{"grape", "almond"}, "cream", "wafer", "almond")
		v.has("the ingredients of grape are taken", patience, o,
			"flavour grape", "flavour almond", "topping cream", "topping wafer", "topping almond")
		v.delete(o)
		v.awaitDeleted(expected, patience, o)
		v.toppingsFirst(expected, o)
	})
}

func twoAtOnce() types.Feature {
	names := []string{"lemon", "lime"}
	return features.New("several at once").
		Assess("deleted at the same time, twice under the same names", check.Assess(assess(func(v visit) {
			for _, again := range []string{"", " again"} {
				var orders []order
				for _, name := range names {
					orders = append(orders, v.createIcecream(name, []string{"citrus"}, "cream"))
				}
				for _, o := range orders {
					v.has(fmt.Sprintf("the ingredients of %s are taken%s", o.name, again),
						patience, o, "flavour citrus", "topping cream")
				}
				var all errgroup.Group
				for _, o := range orders {
					all.Go(func() error { return v.Delete(v.ctx, o.name) })
				}
				v.OK(v.t, "deleting two icecreams at once", all.Wait())
				v.awaitDeleted("when lemon and lime are deleted at the same time"+again+
					", the ingredients of both are returned, and both are gone", patience, orders...)
			}
		}))).
		Assess("and one whose writes meet conflicts", check.Assess(assess(func(v visit) {
			o := v.createIcecream("melon", []string{"melon"}, "cream")
			v.has("the ingredients of melon are taken", patience, o, "flavour melon", "topping cream")
			// An operator that writes the status and then removes the finalizer meets the conflicts there.
			var conflicts []faults.Fault
			for n := 2; n <= 5; n++ {
				conflicts = append(conflicts, faults.Fault{Kind: faults.Conflict, Class: faults.Write, Service: faults.API, At: n})
			}
			v.arm(conflicts...)
			v.delete(o)
			v.awaitDeleted("when melon is deleted, its ingredients are returned, and it is gone, "+
				"also when four of the operator's writes meet a conflict", patience, o)
			v.disarm()
		}))).
		Assess("and one that loses its place", check.Assess(assess(func(v visit) {
			var holders []order
			for _, name := range []string{"mango-1", "mango-2", "mango-3"} {
				holders = append(holders, v.createIcecream(name, []string{"mango"}))
			}
			loser := v.createIcecream("mint", []string{"mint"}, "cream")
			for _, o := range holders {
				v.has("the ingredients of "+o.name+" are taken", patience, o, "flavour mango")
			}
			v.has("the ingredients of mint are taken", patience, loser, "flavour mint", "topping cream")
			fourth := v.createIcecream("mango-4", []string{"mango"}, "cream")
			v.change(loser, `{"spec":{"flavour":["mango"]}}`)
			v.awaitDeleted("of five icecreams of mango, mint and mango-4 have no place: "+
				"they go, and have nothing out of the freezer",
				patience, loser, fourth)
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

func dyingUntouched() types.Feature {
	return features.New("one that is dying already").
		Assess("gets no finalizer, and nothing is taken for it", check.Assess(assess(func(v visit) {
			const expected = "no finalizer is added to an icecream that is being deleted already, and nothing is taken for it"
			v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
			dying := v.createHeld("nougat", []string{"nougat"}, "cream")
			v.delete(dying)
			v.OK(v.t, "starting the operator", v.Operator.Start(v.ctx))
			// When this one has its finalizer and nothing else happens, the operator has seen the other one.
			alive := v.createIcecream("orange", []string{"orange"})
			v.awaitFinalizer("orange, which is not being deleted, gets the finalizer", scenarioPatience, alive)
			v.Settle(v.ctx, v.t)
			if a := v.account(dying); len(a) > 0 {
				v.fail(expected, fmt.Sprintf("%s was taken for nougat, which is being deleted", story.Describe(a[0].Ingredient)))
			}
			resource := icecream.Resource.GroupResource()
			for _, e := range v.Audit.Since(0,
				v.OperatorRequests().And(audit.Writes, audit.On(resource.Group, resource.Resource))) {
				if e.Name == dying.name && e.Subresource == "" && bytes.Contains(e.Request, []byte(finalizer)) {
					v.fail(expected, fmt.Sprintf("the operator tried to: %s", e))
				}
			}
			if now, exists := v.find(dying); !exists || !slices.Equal(now.finalizers, []string{foreign}) {
				v.fail("nougat keeps the finalizer "+foreign+", which is not the operator's",
					finalizersOf(now.finalizers))
			}
			v.removeFinalizer(dying, foreign)
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			return errors.Join(c.Operator.Start(ctx), parlourOf(ctx).removeOwnFinalizer(ctx, "nougat"))
		})).Feature()
}

func foreignFinalizer() types.Feature {
	return features.New("a foreign finalizer").
		Assess("stays until its owner removes it", check.Assess(assess(func(v visit) {
			o := v.createHeld("papaya", []string{"papaya"}, "cream")
			v.until("papaya keeps the finalizer "+foreign+" and gets "+finalizer+" as well", patience, func() (string, bool) {
				now, _ := v.find(o)
				return finalizersOf(now.finalizers), now.hasFinalizer() && slices.Contains(now.finalizers, foreign)
			})
			v.Settle(v.ctx, v.t)
			v.delete(o)
			const expected = "when papaya is deleted, the operator removes its own finalizer, and " + foreign + " stays"
			look := func() (string, bool) {
				now, exists := v.find(o)
				if !exists {
					return "papaya is gone", false
				}
				return finalizersOf(now.finalizers), slices.Equal(now.finalizers, []string{foreign})
			}
			v.until(expected, patience, look)
			if !v.Settle(v.ctx, v.t) {
				v.fail(expected+"; then it has nothing more to do", "it sends requests without end")
			}
			if observed, ok := look(); !ok {
				v.fail(expected, observed)
			}
			v.removeFinalizer(o, foreign)
			v.until("papaya is gone when its last finalizer is", patience, func() (string, bool) {
				now, exists := v.find(o)
				return finalizersOf(now.finalizers), !exists
			})
		}))).
		Assess("also if the operator could not see it yet", check.Assess(assess(func(v visit) {
			other := v.createIcecream("physalis", []string{"physalis"})
			v.has("the flavour physalis is taken", patience, other, "flavour physalis")
			v.arm(faults.Fault{Kind: faults.Stale, Class: faults.Write, At: 1, For: metav1.Duration{Duration: watchDelay}})
			v.change(other, `{"spec":{"topping":["cream"]}}`)
			// The operator's write for it begins the fault.
			v.has("the topping cream is taken for physalis", patience, other, "flavour physalis", "topping cream")
			for _, name := range pitayas {
				o := v.createIcecream(name, []string{name})
				v.Pause(v.ctx, v.t, watchDelay/2) // for this long the operator sees it without the other finalizer
				v.addFinalizer(o, foreign)
				held := time.Now()
				expected := name + " gets the finalizer " + finalizer + ", and " + foreign + " stays, " +
					"which was added when the operator's watch was behind"
				v.until(expected, patience, func() (string, bool) {
					now, _ := v.find(o)
					return finalizersOf(now.finalizers), now.hasFinalizer() && slices.Contains(now.finalizers, foreign)
				})
				v.neverWithout(expected, o, held)
				if first := v.firstWrite(o); first.After(held) && first.Before(held.Add(watchDelay)) {
					break // the client could not know the finalizer; otherwise try again
				}
			}
			v.disarm()
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			p := parlourOf(ctx)
			err := errors.Join(c.Faults.Disarm(ctx), p.removeOwnFinalizer(ctx, "papaya"))
			for _, name := range pitayas {
				err = errors.Join(err, p.removeOwnFinalizer(ctx, name))
			}
			return err
		})).Feature()
}

// removeOwnFinalizer removes a check's own finalizer from an icecream, so that it can be deleted.
func (p *parlour) removeOwnFinalizer(ctx context.Context, name string) error {
	for {
		object, err := p.Client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the icecream %s: %w", name, err)
		}
		object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(f string) bool { return f == foreign }))
		switch _, err = p.Client.Update(ctx, object, metav1.UpdateOptions{}); {
		case err == nil || apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err): // the operator may be writing it
			return fmt.Errorf("freeing the icecream %s: %w", name, err)
		}
	}
}
