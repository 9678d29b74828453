// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package serve implements the Kubernetes API over net/http: discovery, OpenAPI, get, list, watch, writes, Tables and
// Status errors. It does not know what a llama is, where llamas are stored, or what a user may do. Its callers provide
// these.
package serve
