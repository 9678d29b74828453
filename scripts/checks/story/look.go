// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package story

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/scripts/checks/compare"
	"lva.io/operators/scripts/checks/icecream"
	"lva.io/operators/scripts/services/freezer"
)

// look compares every icecream that ever existed with the model: its existence and identity, its spec, its label and
// its finalizers, its status, and its account at the freezer. It returns the first difference, and prefers permanent
// ones.
func (p *play) look() (wrong mismatch) {
	places := Assign(p.world.living())
	behind := p.shop.Behind()
	for _, o := range p.world.sorted() {
		object, exists := p.shop.Object(o.Name)
		found := p.compare(o, object, exists, places)
		found.permanent = found.permanent && !behind
		switch {
		case found.permanent:
			return found
		case wrong.observed == "":
			wrong = found
		}
	}
	if wrong.observed == "" {
		for _, i := range p.shop.All() {
			if p.world.orders[i.Name] == nil {
				return mismatch{
					name:     i.Name,
					expected: "there are no icecreams that the check did not create",
					observed: "there is " + i.Name,
				}
			}
		}
	}
	if wrong.observed == "" && p.Books {
		wrong = p.books()
	}
	return wrong
}

// compare returns how an icecream at the API server differs from the model.
func (p *play) compare(o *order, object *unstructured.Unstructured, exists bool, places Places) mismatch {
	complain := func(forGood bool, expected, observed string) mismatch {
		return mismatch{name: o.Name, expected: expected, observed: observed, permanent: forGood}
	}
	switch o.state {
	case gone:
		expected := o.Name + " is gone"
		if o.why != "" {
			expected = fmt.Sprintf("%s has no place and is deleted: %s", o.Name, o.why)
		}
		if exists {
			return complain(false, expected, o.Name+" is there"+deleting(object))
		}
		return mismatch{}
	case dying:
		expected := fmt.Sprintf("%s is being deleted, and of its finalizers %s stays", o.Name, List(o.foreign))
		switch {
		case !exists:
			return complain(true, expected, o.Name+" is gone")
		case object.GetDeletionTimestamp() == nil:
			return complain(false, expected, o.Name+" is not being deleted")
		case !slices.Equal(object.GetFinalizers(), o.foreign):
			return complain(false, expected, fmt.Sprintf("the finalizers of %s are %s", o.Name, List(object.GetFinalizers())))
		}
		return mismatch{}
	}
	expected := fmt.Sprintf("%s (%s) has a place, and stays", o.Name, taste(o.Flavour))
	switch {
	case !exists:
		return complain(true, expected, o.Name+" is gone")
	case object.GetDeletionTimestamp() != nil:
		return complain(true, expected, o.Name+" is being deleted")
	case string(object.GetUID()) != o.uid:
		return complain(true, expected, fmt.Sprintf("%s is another icecream, of the same name", o.Name))
	}
	i := icecream.View(object)
	if !slices.Equal(i.Flavour, o.Flavour) ||
		!slices.Equal(i.Topping, o.Topping) || (object.GetLabels()[labelled] != "") != o.labelled {
		return complain(false, fmt.Sprintf("the spec and the labels of %s are as they were written: %s",
			o.Name, wrote(o.Flavour, o.Topping, o.labelled)),
			fmt.Sprintf("%s is %s", o.Name, wrote(i.Flavour, i.Topping, object.GetLabels()[labelled] != "")))
	}
	others := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == p.Finalizer })
	if p.Finalizer != "" && len(others) != len(object.GetFinalizers())-1 || p.finalizersDiffer(others, o.foreign) {
		return complain(false, fmt.Sprintf("%s has the finalizers %s", o.Name, List(slices.Concat(o.foreign, p.own()))),
			fmt.Sprintf("the finalizers of %s are %s", o.Name, List(object.GetFinalizers())))
	}
	status := compare.Fields{i.CountIs(int64(len(o.Topping))), i.SoldOutIs(places.SoldOut(o.Flavour))}
	if !status.Same() {
		return complain(false, status.Expected(), status.Observed())
	}
	if p.Also != nil {
		if expected, observed := p.Also(object); observed != "" {
			return complain(false, expected, observed)
		}
	}
	return mismatch{}
}

// finalizersDiffer reports whether the finalizers of other controllers differ from those that were written. An operator
// that needs no finalizer may still have one.
func (p *play) finalizersDiffer(others, foreign []string) bool {
	if p.Finalizer == "" {
		return slices.ContainsFunc(foreign, func(f string) bool { return !slices.Contains(others, f) })
	}
	return !slices.Equal(others, foreign)
}

func (p *play) own() []string {
	if p.Finalizer == "" {
		return nil
	}
	return []string{p.Finalizer}
}

// books compares the freezer's ledger with the model: each icecream that ever existed has exactly the movements that
// were due, and there are none for other icecreams.
func (p *play) books() (wrong mismatch) {
	movements, err := freezer.NewClient(p.Services[freezer.Service]).Movements(p.ctx, "")
	p.OK(p.t, "reading the freezer's ledger", err)
	accounts := map[string]Account{}
	for _, m := range movements {
		accounts[m.Owner] = append(accounts[m.Owner], m)
	}
	for _, o := range slices.Concat(p.world.past, p.world.sorted()) {
		found := o.audit(accounts[o.uid])
		if found.permanent {
			return found
		}
		if wrong.observed == "" {
			wrong = found
		}
	}
	return wrong
}

// audit returns what is wrong with the account of an icecream.
func (o *order) audit(a Account) mismatch {
	expected := fmt.Sprintf("%s has nothing out of the freezer", o.Name)
	if len(o.out) > 0 {
		expected = fmt.Sprintf("%s has %s out of the freezer, each once", o.Name, List(o.out))
	}
	complain := func(forGood bool, observed string) mismatch {
		return mismatch{name: o.Name, expected: expected, observed: observed, permanent: forGood}
	}
	if wrong := a.Wrong(); wrong != "" {
		return complain(true, fmt.Sprintf("%s, for %s", wrong, o.Name))
	}
	if flavour, topping := a.FlavourFirst(); o.state != living && flavour != "" {
		expected = fmt.Sprintf("when %s is deleted, toppings are returned before flavours", o.Name)
		return complain(true, fmt.Sprintf("%s was returned before %s", flavour, topping))
	}
	if out := a.Out(); !slices.Equal(out, slices.Sorted(slices.Values(o.out))) {
		return complain(o.state == gone, fmt.Sprintf("%s has %s out of the freezer", o.Name, List(out)))
	}
	if o.uncertain {
		return mismatch{}
	}
	extra := a.Movements()
	for _, due := range o.due {
		if i := slices.Index(extra, due); i >= 0 {
			extra = slices.Delete(extra, i, i+1)
		}
	}
	if len(extra) > 0 {
		expected += "; and nothing is moved that need not be"
		return complain(true, fmt.Sprintf("for %s was moved, without need: %s", o.Name, List(extra)))
	}
	return mismatch{}
}

func deleting(object *unstructured.Unstructured) string {
	switch {
	case object.GetDeletionTimestamp() == nil:
		return ""
	case len(object.GetFinalizers()) == 0:
		return ", and is being deleted"
	}
	return ", and is being deleted; its finalizers are " + List(object.GetFinalizers())
}

func wrote(flavour, topping []string, labelled bool) string {
	wrote := fmt.Sprintf("flavour %s, topping %s", List(flavour), List(topping))
	if labelled {
		wrote += ", and a label"
	}
	return wrote
}

// List joins a list for a sentence: "nothing", or "cup, spoon and straw".
func List(items []string) string { return cmp.Or(english.WordSeries(items, "and"), "nothing") }
