// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package lighthouse is the Go code that lectures 7, 9 and 11 show, on a toy kind, Lighthouse. Each file with a number
// belongs to that lecture, and shows one idea: answers of an API server (07_answers.go), a conversion between two
// versions (api/v1alpha1/09_conversion.go), a number that may be missing (09_zero.go), and an order outside the cluster
// that is sent once (11_order.go).
//
// It is no lab's kind and no complete operator. Only its tests run it.
package lighthouse
