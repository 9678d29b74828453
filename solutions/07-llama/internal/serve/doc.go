// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package serve speaks the language of the Kubernetes API over net/http: discovery, OpenAPI, get, list, watch, writes,
// Tables and Status errors. It knows nothing of what a llama is, where one is stored, or who may do what: that is given
// to it.
package serve
