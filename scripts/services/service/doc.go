// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package service holds the code that the freezer and the cloud share: it writes their responses, saves their state to
// a file, and sends the requests of checks. It has no server of its own.
package service
