// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lighthouse

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

//lab:begin notes

// Note is what the operator remembers of one lighthouse: an attempt, or its result.
type Note struct {
	Key     types.UID // set while the result of an order may be unknown
	OrderID string    // set when it is known
}

// Notes stores notes outside the process. Save returns nil only after the note is stored.
type Notes interface {
	Load(ctx context.Context, owner types.UID) (Note, error)
	Save(ctx context.Context, owner types.UID, note Note) error
}

// Supplier sells lamps. An order with a known key returns the ID of the first order with it.
type Supplier interface {
	Order(ctx context.Context, key types.UID) (orderID string, err error)
}

//lab:end

// OrderLamp orders one lamp for a lighthouse. It may be called, interrupted and repeated at any point.
func OrderLamp(ctx context.Context, notes Notes, supplier Supplier, owner types.UID) (string, error) {
	note, err := notes.Load(ctx, owner)
	if err != nil {
		return "", fmt.Errorf("loading the note of %s: %w", owner, err)
	}
	if note.OrderID != "" {
		return note.OrderID, nil
	}
	//lab:begin order
	if note.Key == "" {
		note.Key = uuid.NewUUID()
		if err := notes.Save(ctx, owner, note); err != nil { // 1. before the call
			return "", fmt.Errorf("saving the key for %s: %w", owner, err)
		}
	}
	id, err := supplier.Order(ctx, note.Key) // 2. with the key that is stored
	if err != nil {
		// The next call repeats the same order.
		return "", fmt.Errorf("ordering a lamp for %s: %w", owner, err)
	}
	// 3. the result replaces the key
	if err := notes.Save(ctx, owner, Note{OrderID: id}); err != nil {
		return "", fmt.Errorf("saving the order of %s: %w", owner, err)
	}
	//lab:end
	return id, nil
}
