// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package order is a model of what may be ordered: which icecreams the schema of lab 01 allows, and what the webhooks
// of lab 04 say to an order and to a change. It draws orders from a seed, makes them smaller, and writes them as a
// student would. It asks no API server.
package order
