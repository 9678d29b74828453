// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
)

// Main is the lab command, and Root creates it. The tests of package main_test use both.
var (
	Main = main
	Root = root
)

// KeepBest keeps the best report of a lab of the checkout in a folder.
func KeepBest(root string, lab *manifest.Lab, verdict *report.Report) error {
	return ownWork(&checkout.Checkout{Root: root}, lab).keepBest(verdict)
}
