// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package main

// ofSystem returns the findings about features that other systems lack.
func ofSystem() []Finding {
	f := bad(podsLabs, "only Linux has namespaces",
		"Grade these labs on Linux, or on a kind cluster: make cluster, make lab-8 CLUSTER=kind")
	f.Name = "user namespaces"
	return []Finding{f}
}

func inMemory(string) string { return "" }

const probeArgument = "-probe"

func probed() (code int) { return 1 }
