// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package llama defines the resource llamas: its columns, its validation, and the metadata that a write sets. It stores
// llamas in the store, and knows nothing of HTTP.
package llama
