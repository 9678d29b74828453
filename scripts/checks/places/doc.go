// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package places has the checks about places in the shop that several labs share: helper methods for writing such
// checks, and the checks for every operator that deletes icecreams without a place. It knows only the rules of lab 02,
// and none of the additional rules of later labs.
package places
