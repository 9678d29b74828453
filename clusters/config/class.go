// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package config

import _ "embed"

// What a class has on a cluster that it shares. Package class of the scripts applies it.
var (
	// ClassCluster is there once: what students may do outside of their namespaces.
	//
	//go:embed class/cluster.yaml
	ClassCluster []byte
	// ClassStudent is there for each student: the namespace, its limits, and what the student may do in it.
	//
	//go:embed class/student.yaml
	ClassStudent []byte
	// ClassCilium is there for each student where the network is Cilium: what plain network policies can't say.
	//
	//go:embed class/cilium.yaml
	ClassCilium []byte
)
