// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"

	demov1 "lva.io/operators/labs/03-finalizer/api/v1"
	"lva.io/operators/labs/03-finalizer/internal/freezer"
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
		// TODO(lab): 4. The cache may be behind. Is this the icecream as the API server has it (r.APIReader)? If its
		// generation is another one, book nothing, and return an error: what is booked can't be unbooked.
		err = r.book(ctx, icecream, missing)
	}
	// TODO(lab): 6. Set the condition settled in the icecream's status with meta.SetStatusCondition: true, or false
	// with the reason of the error (reason, below) and the error as its message. observedGeneration says of which spec
	// you speak.
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
	// TODO(lab): 4. Ask the freezer which ingredients this icecream has out (its UID is the owner), and let balance say
	// which movements are missing.
	return nil, nil
}

// book books movements. It may be cut off after any of its requests, and started again: a movement whose answer was
// lost is booked again under the same id, which changes nothing.
func (r *IcecreamReconciler) book(ctx context.Context, icecream *demov1.Icecream, movements []freezer.Movement) error {
	// TODO(lab): 4. Book each of them. At the first error stop and hand it back: you are called again.
	return nil
}

// wanted lists the ingredients that an icecream should have out of the freezer. An icecream that is being deleted needs
// none. A deletion takes no other code.
func wanted(icecream *demov1.Icecream) []freezer.Ingredient {
	// TODO(lab): 2. Its flavours and its toppings, or nothing if it is being deleted.
	return nil
}

// balance compares the ingredients that an icecream has out with those it needs, and lists the missing movements.
// Returns come first, toppings before flavours, since they lie on top. Then come the ingredients that are taken out.
func balance(icecream *demov1.Icecream, out []freezer.Ingredient) []freezer.Movement {
	// TODO(lab): 2. An ingredient that is out and not wanted is moved freezer.In, toppings first. One that is wanted
	// and not out is moved freezer.Out. The owner of a movement is the icecream's UID.
	return nil
}

// movementID derives the id of a movement from its contents, so every attempt to book it has the same id, also after a
// crash. The UID distinguishes an icecream from a later one of the same name. The generation counts changes of the
// spec, and a deletion, too: if a topping is removed and added again, that is another movement.
func movementID(icecream *demov1.Icecream, movement freezer.Movement) string {
	// TODO(lab): 3. Make an id from the owner, the generation, the direction, the kind and the name. An id may have
	// up to 200 letters, digits and any of "._:-", and a flavour may be called anything: so take a hash of them.
	return ""
}
