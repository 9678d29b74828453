// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package story

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lva.io/operators/scripts/checks/icecream"
)

// state is the state of an icecream's life.
type state int

const (
	living state = iota
	dying        // it is being deleted, and finalizers of other controllers block it
	gone
)

// order is the expected state of an icecream.
type order struct {
	icecream.Icecream // without a status
	uid               string
	labelled          bool
	foreign           []string // finalizers of other controllers
	state             state
	why               string // why it has no place; empty if it has one

	// out is what the icecream had out of the freezer when the operator had last dealt with everything. due are all
	// movements until then.
	out, due []string
	// uncertain means that it may have had a place for a moment. Then only what is out in the end is certain.
	uncertain      bool
	known, changed bool // the operator has dealt with it; its spec has changed since
}

// World is the expected state of the shop at a point of a story, according to the model.
type World struct {
	orders map[string]*order
	past   []*order // deleted icecreams whose names others have now
}

func newWorld() *World { return &World{orders: map[string]*order{}} }

// sorted returns all icecreams by name, including deleted ones. If several had the same name, it returns the last.
func (w *World) sorted() []*order {
	return slices.SortedFunc(maps.Values(w.orders), func(a, b *order) int { return strings.Compare(a.Name, b.Name) })
}

func (w *World) living() (all []icecream.Icecream) {
	for _, o := range w.sorted() {
		if o.state == living {
			all = append(all, o.Icecream)
		}
	}
	return all
}

// possible reports whether an action can be carried out. In a part of a story, an icecream may be missing, or have no
// place.
func (w *World) possible(d Action) bool {
	o := w.orders[d.Name]
	switch {
	case d.Do == Create:
		return o == nil || o.state == gone
	case o == nil:
		return false
	case d.Do == Release:
		return o.state != gone && slices.Contains(o.foreign, d.Finalizers[0])
	}
	return o.state == living
}

// create adds a new icecream.
func (w *World) create(d Action, uid string, created time.Time) {
	if before := w.orders[d.Name]; before != nil {
		w.past = append(w.past, before)
	}
	w.orders[d.Name] = &order{
		Icecream: icecream.Icecream{Name: d.Name, Created: created, Flavour: d.Flavour, Topping: d.Topping},
		uid:      uid,
		foreign:  d.Finalizers,
	}
}

// change applies an action on the cluster to the model.
func (w *World) change(d Action) {
	o := w.orders[d.Name]
	switch d.Do {
	case ChangeFlavour:
		o.Flavour, o.changed = d.Flavour, true
	case ChangeTopping:
		o.Topping, o.changed = d.Topping, true
	case Label:
		o.labelled = true
	case Delete:
		o.delete()
	case Hold:
		if d.Front {
			o.foreign = slices.Concat(d.Finalizers, o.foreign)
		} else {
			o.foreign = slices.Concat(o.foreign, d.Finalizers)
		}
	case Release:
		o.foreign = slices.DeleteFunc(slices.Clone(o.foreign), func(f string) bool { return f == d.Finalizers[0] })
		if o.state == dying && len(o.foreign) == 0 {
			o.state = gone
		}
	}
}

// delete deletes an icecream. Everything that it has out of the freezer is returned.
func (o *order) delete() {
	o.due, o.out = append(o.due, Due(o.out, nil)...), nil
	o.state = gone
	if len(o.foreign) > 0 {
		o.state = dying
	}
}

// settle applies what an operator has to do after a phase: it deletes icecreams without a place, and the others have
// out of the freezer what they want. An icecream that lost its place while the operator ran may have had one for a
// moment, if it was created or changed just then.
func (w *World) settle(away bool) {
	places := Assign(w.living())
	for _, o := range w.sorted() {
		if o.state != living {
			continue
		}
		if full := places.full(o.Flavour); !places.Has(o.Name) {
			o.why = fmt.Sprintf("of %s, %s are older", taste([]string{full}), strings.Join(places.taken[full], ", "))
			o.uncertain = !away && (!o.known || o.changed)
			o.delete()
			continue
		}
		wanted := Wanted(o.Icecream)
		o.due, o.out = append(o.due, Due(o.out, wanted)...), wanted
		o.known, o.changed = true, false
	}
}
