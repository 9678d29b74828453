// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package config

import _ "embed"

// The objects of a class on a shared cluster. Package class of the scripts applies them.
var (
	// ClassCluster is applied once. It defines what students may do outside of their namespaces.
	//
	//go:embed class/cluster.yaml
	ClassCluster []byte
	// ClassStudent is applied for each student. It defines the namespace, its limits, and what the student may do in it.
	//
	//go:embed class/student.yaml
	ClassStudent []byte
	// ClassCilium is applied for each student where the network is Cilium. It has the rules that plain network policies
	// can't express.
	//
	//go:embed class/cilium.yaml
	ClassCilium []byte
)
