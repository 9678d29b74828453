// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"
)

// InitialStock is how much there is of each ingredient before any of it moved.
const InitialStock = 1000

// Kinds of ingredients.
const (
	Topping = "topping"
	Flavour = "flavour"
)

// Directions of movements, as the freezer sees them.
const (
	// Out of the freezer: taken.
	Out = "out"
	// In to the freezer: returned.
	In = "in"
)

// Ingredient is something that the freezer stores.
type Ingredient struct {
	Kind       string `json:"kind"`
	Ingredient string `json:"ingredient"`
}

// Item is how much there is of an ingredient.
type Item struct {
	Ingredient
	Count int `json:"count"`
}

// Movement records one ingredient that was taken or returned.
type Movement struct {
	// ID is chosen by the caller. The freezer books at most one movement under each ID.
	ID string `json:"id"`
	// Owner identifies the object for which it moved, for example by its uid.
	Owner string `json:"owner"`
	// Direction is Out or In.
	Direction string `json:"direction"`
	Ingredient
	// Booked is when the freezer booked it. Movements are booked one after another.
	Booked time.Time `json:"booked"`
}

func (m Movement) same(other Movement) bool {
	m.Booked, other.Booked = time.Time{}, time.Time{}
	return m == other
}

// allowed matches ids and owners, which are parts of URLs.
var allowed = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,200}$`)

// maxIngredient is how long the name of an ingredient may be, in bytes.
const maxIngredient = 200

// check describes in one sentence what is wrong with a movement that a client wants to book.
func (m Movement) check() error {
	switch {
	case !allowed.MatchString(m.ID):
		return fmt.Errorf("the id %.40q is not one: take 1 to 200 of the characters A-Z a-z 0-9 . _ : -", m.ID)
	case !allowed.MatchString(m.Owner):
		return fmt.Errorf("the owner %.40q is not one: take 1 to 200 of the characters A-Z a-z 0-9 . _ : -, as a uid has",
			m.Owner)
	case m.Direction != Out && m.Direction != In:
		return fmt.Errorf("the direction %.40q is not one: write %q for what you take or %q for what you return",
			m.Direction, Out, In)
	case m.Kind != Topping && m.Kind != Flavour:
		return fmt.Errorf("the kind %.40q is not one: write %q or %q", m.Kind, Topping, Flavour)
	case m.Ingredient.Ingredient == "":
		return errors.New("the ingredient is missing: say what moves")
	case len(m.Ingredient.Ingredient) > maxIngredient:
		return fmt.Errorf("the name of the ingredient is too long: take at most %d bytes", maxIngredient)
	}
	return nil
}

// errNoneLeft and errOther are the reasons why a well-formed movement is not booked.
var (
	errNoneLeft = errors.New("none left")
	errOther    = errors.New("another movement has this id")
)

// ledger contains the booked movements, in the order in which they were booked.
type ledger struct {
	// keep saves the movements, and is called before a booking takes effect. If it is nil, they are only in memory.
	keep func([]Movement) error

	mutex     sync.Mutex
	movements []Movement
	byID      map[string]Movement
	stock     map[Ingredient]int // of every ingredient that ever moved
}

func newLedger(movements []Movement) *ledger {
	l := &ledger{byID: map[string]Movement{}, stock: map[Ingredient]int{}}
	for _, movement := range movements {
		l.enter(movement)
	}
	return l
}

func (l *ledger) left(ingredient Ingredient) int {
	if count, ok := l.stock[ingredient]; ok {
		return count
	}
	return InitialStock
}

// enter books a movement without any check.
func (l *ledger) enter(m Movement) {
	change := 1
	if m.Direction == Out {
		change = -1
	}
	l.stock[m.Ingredient] = l.left(m.Ingredient) + change
	l.movements = append(l.movements, m)
	l.byID[m.ID] = m
}

// book books a movement unless it was booked before. It returns the movement that is booked under this id.
func (l *ledger) book(m Movement) (booked Movement, fresh bool, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if before, ok := l.byID[m.ID]; ok {
		if !before.same(m) {
			return before, false, errOther
		}
		return before, false, nil
	}
	if m.Direction == Out && l.left(m.Ingredient) == 0 {
		return Movement{}, false, errNoneLeft
	}
	m.Booked = time.Now().UTC()
	if l.keep != nil {
		if err := l.keep(append(slices.Clone(l.movements), m)); err != nil {
			return Movement{}, false, err
		}
	}
	l.enter(m)
	return m, true, nil
}

// items returns the stock of everything that ever moved: toppings after flavours, by name.
func (l *ledger) items() []Item {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	items := make([]Item, 0, len(l.stock))
	for ingredient, count := range l.stock {
		items = append(items, Item{Ingredient: ingredient, Count: count})
	}
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Ingredient.Ingredient, b.Ingredient.Ingredient))
	})
	return items
}

// movementsOf returns the movements of an owner, or all movements if owner is empty, as they were booked.
func (l *ledger) movementsOf(owner string) []Movement {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	movements := []Movement{}
	for _, movement := range l.movements {
		if owner == "" || movement.Owner == owner {
			movements = append(movements, movement)
		}
	}
	return movements
}

// out returns what an owner has taken and not returned, in the order in which it was taken.
func (l *ledger) out(owner string) []Ingredient {
	out := []Ingredient{}
	for _, movement := range l.movementsOf(owner) {
		if movement.Direction == Out {
			out = append(out, movement.Ingredient)
		} else if i := slices.Index(out, movement.Ingredient); i >= 0 {
			out = slices.Delete(out, i, i+1)
		}
	}
	return out
}
