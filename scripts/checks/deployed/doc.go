// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package deployed is how the checks of a lab whose stage is deployed bring the submission into the cluster: what its
// config/default comes to, object by object and when they want, and what its Pods do there, as Events and logs tell. It
// judges nothing, and knows no lab.
package deployed
