// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package story

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
)

// patience is how long an operator may be silent before a story counts as failed: some operators retry only five
// seconds after a conflict. While a failed story is shrunk, the shorter hurry is enough.
const (
	patience = 7 * time.Second
	hurry    = time.Second
)

// play is a story in progress.
type play struct {
	*check.Check
	Rules
	ctx      context.Context
	t        *testing.T
	shop     *icecream.Shop
	patience time.Duration

	world  *World
	newest time.Time // when the last icecream was created
	// wrong is the last difference from the model.
	wrong mismatch
}

// mismatch is a difference between an icecream and the model. permanent means that waiting does not help.
type mismatch struct {
	name, expected, observed string
	permanent                bool
}

// story plays a story to its end.
func (p *play) story(story Story) {
	p.t.Helper()
	for _, phase := range story {
		p.phase(phase)
	}
	p.Settle(p.ctx, p.t)
	p.awaitModel()
}

func (p *play) phase(phase Phase) {
	p.t.Helper()
	if phase.Away {
		p.OK(p.t, "stopping the operator", p.Operator.Stop(p.ctx))
	}
	actions := phase.Actions
	if phase.Later {
		p.Pause(p.ctx, p.t, time.Until(p.newest.Add(time.Second))) // creation times have whole seconds
		others := slices.IndexFunc(actions, func(d Action) bool { return d.Do != Create })
		if others < 0 {
			others = len(actions)
		}
		p.create(actions[:others]...)
		actions = actions[others:]
	}
	for _, action := range actions {
		if !p.world.possible(action) {
			continue
		}
		if action.Do == Create {
			p.create(action)
			continue
		}
		p.OK(p.t, action.String(), p.do(action))
		p.world.change(action)
	}
	if phase.Away {
		p.OK(p.t, "starting the operator", p.Operator.Start(p.ctx))
	}
	p.world.settle(phase.Away)
	p.awaitModel()
}

// atOnce is the number of concurrent requests.
const atOnce = 8

// create creates icecreams concurrently.
func (p *play) create(actions ...Action) {
	p.t.Helper()
	created := make([]*unstructured.Unstructured, len(actions))
	failed := make([]error, len(actions))
	var all errgroup.Group
	all.SetLimit(atOnce)
	for n, action := range actions {
		all.Go(func() error {
			object := icecream.New(action.Name, action.Flavour, action.Topping)
			object.SetFinalizers(action.Finalizers)
			created[n], failed[n] = p.shop.CreateObject(p.ctx, object)
			return nil
		})
	}
	_ = all.Wait() // each has its own error
	for n, action := range actions {
		p.OK(p.t, action.String(), failed[n])
		at := created[n].GetCreationTimestamp().Time
		p.world.create(action, string(created[n].GetUID()), at)
		if at.After(p.newest) {
			p.newest = at
		}
	}
}

func (p *play) do(action Action) error {
	switch action.Do {
	case ChangeFlavour:
		return p.shop.Patch(p.ctx, action.Name, patch("spec", "flavour", action.Flavour))
	case ChangeTopping:
		if len(action.Topping) == 0 {
			return p.shop.Patch(p.ctx, action.Name, `{"spec":{"topping":null}}`)
		}
		return p.shop.Patch(p.ctx, action.Name, patch("spec", "topping", action.Topping))
	case Label:
		return p.shop.Patch(p.ctx, action.Name, patch("metadata", "labels", map[string]string{labelled: action.Name}))
	case Delete:
		return p.shop.Delete(p.ctx, action.Name)
	case Hold, Release:
		return p.finalizers(action.Name, func(all []string) []string {
			others := slices.DeleteFunc(all, func(f string) bool { return f == action.Finalizers[0] })
			switch {
			case action.Do == Release:
				return others
			case action.Front:
				return slices.Concat(action.Finalizers, others)
			}
			return append(others, action.Finalizers[0])
		})
	case Forge, Forget:
		return p.status(action)
	}
	return fmt.Errorf("unknown action: %s", action)
}

// labelled is the key of the label.
const labelled = "table"

func patch(part, field string, value any) string {
	content, err := json.Marshal(map[string]any{part: map[string]any{field: value}})
	if err != nil {
		panic(err) // the value has only strings and lists of strings
	}
	return string(content)
}

// finalizers changes the finalizers of an icecream as their owners would: starting from the current ones.
func (p *play) finalizers(name string, edit func([]string) []string) error {
	for {
		object, err := p.shop.Client.Get(p.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.SetFinalizers(edit(object.GetFinalizers()))
		if _, err = p.shop.Client.Update(p.ctx, object, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// status writes a status with false claims about the unchanged icecream, or removes the status.
func (p *play) status(action Action) error {
	object, err := p.shop.Client.Get(p.ctx, action.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var content any
	if action.Do == Forge {
		content = map[string]any{"soldOut": action.SoldOut, "toppingsCount": 7, "conditions": []metav1.Condition{{
			Type: "Settled", Status: metav1.ConditionTrue, Reason: "Balanced", Message: "From another life",
			ObservedGeneration: object.GetGeneration(), LastTransitionTime: metav1.Now(),
		}}}
	}
	written, err := json.Marshal(map[string]any{"status": content})
	if err != nil {
		return err
	}
	_, err = p.shop.Client.Patch(p.ctx, action.Name, types.MergePatchType, written, metav1.PatchOptions{}, "status")
	return err
}

// awaitModel waits until every icecream matches the model.
func (p *play) awaitModel() {
	p.t.Helper()
	expected := "every icecream is as the rules of the shop say"
	p.EventuallyWithin(p.ctx, p.t, expected, p.patience, p.shop.Changed, func() (string, bool) {
		p.wrong = p.look()
		if p.wrong.permanent {
			p.Fail(p.t, p.wrong.expected, p.wrong.observed)
		}
		return p.wrong.observed, p.wrong == mismatch{}
	})
}

// end removes the remains of a story: finalizers that only this check knows, and all icecreams.
func (p *play) end(ctx context.Context) error {
	if err := p.Operator.Start(ctx); err != nil {
		return err
	}
	p.ctx = ctx
	for _, o := range p.world.sorted() {
		if o.state == gone || len(o.foreign) == 0 {
			continue
		}
		err := p.finalizers(o.Name, func(all []string) []string {
			return slices.DeleteFunc(all, func(f string) bool { return slices.Contains(o.foreign, f) })
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the finalizers of %s: %w", o.Name, err)
		}
	}
	return p.shop.Empty(ctx)
}

// Rules are what a lab requires of each icecream of a story besides the rules of the shop.
type Rules struct {
	// Finalizer is the operator's finalizer. Empty: it need not have one.
	Finalizer string
	// Books means that the freezer's ledger is compared, too.
	Books bool
	// Also describes further mistakes of an icecream that is not being deleted, as expected and observed. Empty: nothing.
	Also func(*unstructured.Unstructured) (expected, observed string)
}
