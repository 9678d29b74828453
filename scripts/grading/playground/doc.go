// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package playground is what a person does without a grade: start the checkout's playground and its add-ons, run an
// operator against it or against another cluster, and deploy an operator to it or to a kind cluster. It says what would
// otherwise need an explanation, such as objects whose finalizers the operator does not know, and tells of files that
// were saved, for what begins again then.
//
// It judges no operator, and knows neither the commands nor their flags. The playground's processes and its node belong
// to clusters/embedded, and installing an operator in a cluster belongs to stage.
package playground
