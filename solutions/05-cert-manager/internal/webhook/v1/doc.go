// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package v1 has a say in what is stored: it fills in what an order leaves open, and refuses what the shop does not
// sell. It changes nothing else and remembers nothing: what is stored already is the controller's business.
package v1
