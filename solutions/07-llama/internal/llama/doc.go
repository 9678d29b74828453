// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package llama says what a llama is: its columns, its rules, and what happens to its metadata when it is written. It
// stores llamas in the store, and knows nothing of HTTP.
package llama
