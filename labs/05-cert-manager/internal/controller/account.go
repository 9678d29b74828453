// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demov1 "lva.io/operators/labs/05-cert-manager/api/v1"
	"lva.io/operators/labs/05-cert-manager/internal/freezer"
)

// The condition that says whether the freezer's books agree with the icecream, and its reasons. A reason is for
// programs, and for people who have to act: a freezer that is down has to be repaired, and one without cream has to be
// filled.
const (
	settled            = "Settled"
	balanced           = "Balanced"
	unbalanced         = "Unbalanced"
	freezerUnavailable = "FreezerUnavailable"
	freezerRefused     = "FreezerRefused"
)

// settle books what is missing in an icecream's account at the freezer, and sets the condition Settled. It does not
// write the status.
func (r *IcecreamReconciler) settle(ctx context.Context, icecream *demov1.Icecream) error {
	missing, err := r.missing(ctx, icecream)
	if len(missing) > 0 {
		if err := r.current(ctx, icecream); err != nil {
			return err // This says nothing about the freezer, so it does not belong into the condition.
		}
		err = r.book(ctx, icecream, missing)
	}
	condition := metav1.Condition{
		Type: settled, Status: metav1.ConditionTrue, ObservedGeneration: icecream.Generation,
		Reason: balanced, Message: "It has out of the freezer what it wants, and nothing else",
	}
	if err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reason(err), err.Error()
	}
	meta.SetStatusCondition(&icecream.Status.Conditions, condition)
	return err
}

// errUnbalanced is that all was booked, and the books say something else.
var errUnbalanced = errors.New("all is booked, and the books do not balance: " +
	"another program must have booked for this icecream")

// reason is why an account is not settled, in one word.
func reason(err error) string {
	switch {
	case errors.Is(err, errUnbalanced):
		return unbalanced
	case freezer.IsRefused(err):
		return freezerRefused
	}
	return freezerUnavailable // The freezer throttles, fails, or does not answer at all.
}

// missing asks the freezer what an icecream has out, and lists what has to be booked.
func (r *IcecreamReconciler) missing(ctx context.Context, icecream *demov1.Icecream) ([]freezer.Movement, error) {
	out, err := r.Freezer.Outstanding(ctx, string(icecream.UID))
	if err != nil {
		return nil, fmt.Errorf("ask what is out: %w", err)
	}
	return balance(icecream, out), nil
}

// current returns an error unless the spec that is about to be booked is the one that the API server has. The cache may
// be behind, and after a restart by more than a moment: it may begin with a list from before the last change. A
// movement that is booked for an old spec can't be corrected later, since its id is used up. So current asks the API
// server itself, as before a deletion. It does so only when there is something to book, which is seldom.
func (r *IcecreamReconciler) current(ctx context.Context, icecream *demov1.Icecream) error {
	if !icecream.DeletionTimestamp.IsZero() {
		return nil // It wants nothing any more, and that does not change.
	}
	var current demov1.Icecream
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(icecream), &current); err != nil {
		return fmt.Errorf("ask the API server for the icecream: %w", err)
	}
	if current.UID != icecream.UID || current.Generation != icecream.Generation {
		return errors.New("the cache is behind: nothing is booked until it knows the icecream as it is now")
	}
	return nil
}

// book books movements. It may be cut off after any of its requests, and started again: a movement whose answer was
// lost is booked again under the same id, which changes nothing.
func (r *IcecreamReconciler) book(ctx context.Context, icecream *demov1.Icecream, movements []freezer.Movement) error {
	for _, movement := range movements {
		if err := r.Freezer.Book(ctx, movementID(icecream, movement), movement); err != nil {
			return fmt.Errorf("book %s %s %s: %w", movement.Kind, movement.Name, movement.Direction, err)
		}
	}
	// Each answer was "booked". Check that the books agree now, since readers of the condition rely on it.
	missing, err := r.missing(ctx, icecream)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: %d movements are missing", errUnbalanced, len(missing))
	}
	return err
}

// wanted lists the ingredients that an icecream should have out of the freezer. An icecream that is being deleted needs
// none. A deletion takes no other code.
func wanted(icecream *demov1.Icecream) []freezer.Ingredient {
	if !icecream.DeletionTimestamp.IsZero() {
		return nil
	}
	var ingredients []freezer.Ingredient
	for _, flavour := range icecream.Spec.Flavour {
		ingredients = append(ingredients, freezer.Ingredient{Kind: freezer.Flavour, Name: flavour})
	}
	for _, topping := range icecream.Spec.Topping {
		ingredients = append(ingredients, freezer.Ingredient{Kind: freezer.Topping, Name: topping})
	}
	return ingredients
}

// balance compares the ingredients that an icecream has out with those it needs, and lists the missing movements.
// Returns come first, toppings before flavours, since they lie on top. Then come the ingredients that are taken out.
func balance(icecream *demov1.Icecream, out []freezer.Ingredient) []freezer.Movement {
	wanted := wanted(icecream)
	var missing []freezer.Movement
	add := func(direction freezer.Direction, ingredient freezer.Ingredient) {
		missing = append(missing, freezer.Movement{Owner: string(icecream.UID), Direction: direction, Ingredient: ingredient})
	}
	for _, kind := range []freezer.Kind{freezer.Topping, freezer.Flavour} {
		for _, ingredient := range out {
			if ingredient.Kind == kind && !slices.Contains(wanted, ingredient) {
				add(freezer.In, ingredient)
			}
		}
	}
	for _, ingredient := range wanted {
		if !slices.Contains(out, ingredient) {
			add(freezer.Out, ingredient)
		}
	}
	return missing
}

// movementID derives the id of a movement from its contents, so every attempt to book it has the same id, also after a
// crash. The UID distinguishes an icecream from a later one of the same name. The generation counts changes of the
// spec, and a deletion, too: if a topping is removed and added again, that is another movement.
func movementID(icecream *demov1.Icecream, movement freezer.Movement) string {
	// A hash, because a flavour may have any name, and an id may not.
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %d %s %s %s",
		movement.Owner, icecream.Generation, movement.Direction, movement.Kind, movement.Name)))
}
