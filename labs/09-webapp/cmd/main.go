// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command manager runs the operator. It only wires: the work is done in internal/controller.
package main

// +kubebuilder:scaffold:imports

// TODO(lab): there is nothing here yet: `lab new` writes a project to begin with.
func main() { println("there is no operator in this folder yet: its README.md says how to begin") }
