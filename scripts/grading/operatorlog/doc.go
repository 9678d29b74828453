// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package operatorlog reads what an operator has logged: its panics, and the errors that Reconcile returned. It knows
// the forms that controller-runtime and the loggers beside it have had since 2018; it judges nothing.
package operatorlog
