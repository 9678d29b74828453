// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package service holds the code that the freezer and the cloud share: it writes their responses, saves their state to
// a file, sends the requests of checks, and shortens ids in descriptions. It has no server of its own.
package service
