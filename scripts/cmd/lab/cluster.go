// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/placement"
)

// clusterFlags select a fresh cluster, or an existing one that others use, too.
type clusterFlags struct{ placement.Placement }

func (f *clusterFlags) register(command *cobra.Command, otherwise string) {
	f.registerCluster(command, otherwise)
	command.Flags().BoolVar(&f.Pod, "pod", false,
		"run the operator as a Pod of the cluster (default: on kind, and if labs.yaml requires it)")
	command.Flags().BoolVar(&f.Process, "process", false,
		"run the operator as a process of this machine (default: elsewhere)")
	cli.Exclusive(command, "pod", "process")
}

// registerCluster registers the flags of a command whose operator is always a process of this machine, or that runs
// none.
func (f *clusterFlags) registerCluster(command *cobra.Command, otherwise string) {
	command.Flags().StringVar(&f.Cluster, "cluster", "",
		"where: kind, kind:NAME, or context:NAME for a context of your kubeconfig (default: "+otherwise+")")
	command.Flags().StringVar(&f.Address, "address", "",
		"the IP address at which that cluster reaches this machine (default: found out)")
}
