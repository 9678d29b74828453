// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package web is the site: which path leads to which answer. It computes no proofs: see package acme.
package web
