// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package places holds what several labs check of the places in the shop: the words in which such checks are written,
// and those that every operator must pass which deletes icecreams for want of a place. It knows the rules of lab 02,
// and nothing of what a later lab asks for besides.
package places
