// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package plan

import "lva.io/operators/clusters/node/namespace"

// The network of a node.
const (
	// NodeIP is the node's address, at which its Pods reach it and the API server.
	NodeIP = "10.244.0.1"
	// PodNetwork is where Pods have their addresses, and ServiceNetwork Services: kubeadm's.
	PodNetwork     = "10.244.0.0/16"
	ServiceNetwork = "10.96.0.0/16"
	// MachineIP is where Pods reach programs of the machine: those that package egress leads to by this address, and no
	// others. It is one that nobody has (RFC 5737).
	MachineIP = "192.0.2.1"
	// DNSIP is the address of the Service of CoreDNS, and Domain is the cluster's.
	DNSIP  = "10.96.0.10"
	Domain = "cluster.local"
)

// Paths in a node.
const (
	programs         = "/usr/lib/operator-labs/"
	InitPath         = programs + "init"
	AgentPath        = programs + "agent"
	ControlPlanePath = programs + "controlplane"
	// Etc is what the machine has written for the node: certificates, kubeconfigs, the kubelet's configuration. Read-only.
	Etc = "/etc/operator-labs"
	// Images is the image store, read-only, and Layers its layers, unpacked.
	Images = "/var/lib/images"
	Layers = "/var/lib/layers"
	// Containers is what containers write, and State what the agent remembers. The latter goes with the node.
	Containers = "/var/lib/containers"
	State      = "/run/operator-labs/cri"
	// Reserve is a file that keeps some room for the kubelet where Pods write.
	Reserve = "/var/lib/reserve"

	// Cgroups is the control group whose children are the containers', where there is one.
	Cgroups = "/run/operator-labs/cgroups"

	KeeperSocket = "/run/operator-labs/keeper.sock"
	CRISocket    = "/run/operator-labs/cri.sock"
)

// Host is what the node's end on the machine is told.
type Host struct {
	// Name is the node's.
	Name string
	// Dir is the node's folder. Of it, the node sees etc, var and log.
	Dir string
	// Keep lets what Pods have written survive the node. Otherwise it is kept in memory.
	Keep bool
	// Init, Agent, ControlPlane are the files of the programs.
	Init, Agent, ControlPlane string
	// Images is the folder of the image store, and Builder a command that makes one of the catalogue's, whose name is its
	// last argument.
	Images  string
	Builder []string
	// API is where the API server listens on the machine. In the node it is at the same port of every address.
	API string
	// Egress is the socket by which the API server goes to Pods and Services; Local that of who serves Services on the
	// machine (package egress), who is asked first.
	Egress, Local string
	// Runtime is the socket on the machine that leads to the node's container runtime (CRISocket). Empty: there is none.
	Runtime string
	// KubeletArgs are the kubelet's arguments, its name among them; AgentArgs the agent's.
	KubeletArgs, AgentArgs []string
	// SingleID takes one id, even if there are more. It is for tests.
	SingleID bool
}

// Node is what the first process is told.
type Node struct {
	Name       string
	Root       namespace.Root
	Agent      []string
	Kubelet    []string
	KubeletEnv []string
}

// Limits say which limits of containers hold.
type Limits struct{ Memory, CPU bool }

// Status is what a part says when the node is there, or can't be. Reason and Remedy are those of a
// namespace.Unavailable.
type Status struct {
	Limits Limits `json:",omitzero"`

	Error          string `json:",omitempty"`
	Reason, Remedy string `json:",omitempty"`
}
