// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package freezer talks to the freezer, where the ingredients are kept. It books what it is told to, and decides
// nothing: not what an icecream needs, nor when to try again.
//
// The freezer keeps a ledger of movements: who took an ingredient out, and who brought one back in. What an owner has
// out follows from that. Each movement has an id, which the caller makes up. To book one that is booked already changes
// nothing, as long as it has the same id: that is why a call may be repeated when its answer was lost.
package freezer
