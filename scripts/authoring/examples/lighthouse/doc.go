// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package lighthouse has the Go code that lectures 7, 9 and 11 show, on a toy kind, Lighthouse. The number of a file is
// that of its lecture, and each file shows one idea: answers of an API server (07_answers.go), a conversion between two
// versions (api/v1alpha1/09_conversion.go), a number that may be missing (09_zero.go), and an order outside the cluster
// that is sent once (11_order.go).
//
// No lab uses this kind, and it has no complete operator. Only its tests run it.
package lighthouse
