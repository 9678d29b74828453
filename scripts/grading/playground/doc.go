// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package playground implements the commands without a grade: they start the checkout's playground and its add-ons, run
// an operator against it or against another cluster, and deploy an operator to it or to a kind cluster. The package
// explains unexpected states, such as objects whose finalizers the operator does not know.
//
// It does not judge operators, and knows neither the commands nor their flags. The playground's processes and its node
// belong to clusters/embedded, and installing an operator in a cluster belongs to stage.
package playground
