// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package operatorlog finds panics, and the errors that Reconcile returned, in an operator's log. It knows the formats
// that controller-runtime and the loggers used with it have had since 2018. It does not judge the operator.
package operatorlog
