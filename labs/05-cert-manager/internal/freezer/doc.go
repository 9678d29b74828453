// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package freezer is a client of the freezer, where the ingredients are kept. It decides nothing: neither what an
// icecream needs, nor when to try again.
//
// The freezer keeps a ledger of movements: which owner took an ingredient out, and which owner returned one. The
// ingredients that an owner has out follow from the ledger. Each movement has an id, which the caller chooses. Booking
// a movement again under the same id changes nothing, so a call may be repeated when its answer was lost.
package freezer
