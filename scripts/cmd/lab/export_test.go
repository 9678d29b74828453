// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

// Main is the lab command, and Root creates it. The tests of package main_test use both.
var (
	Main = main
	Root = root
)
