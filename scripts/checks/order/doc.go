// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package order models the valid orders: which icecreams the schema of lab 01 allows, and how the webhooks of lab 04
// answer an order or a change. It draws orders from a seed, shrinks them, and writes them as a student would. It sends
// no request to an API server.
package order
