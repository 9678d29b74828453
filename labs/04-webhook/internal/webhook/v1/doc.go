// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1 has the admission webhooks of icecreams: one fills in fields that an order leaves open, the other denies
// flavours that the shop does not sell. They change nothing else and remember nothing. Stored icecreams are the
// controller's work.
package v1
