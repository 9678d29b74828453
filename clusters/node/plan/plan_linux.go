// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package plan

import "lva.io/operators/clusters/node/namespace"

// The network of a node.
const (
	// NodeIP is the node's address, at which its Pods reach the node and the API server.
	NodeIP = "10.244.0.1"
	// PodNetwork has the addresses of Pods, and ServiceNetwork those of Services, as in kubeadm.
	PodNetwork     = "10.244.0.0/16"
	ServiceNetwork = "10.96.0.0/16"
	// MachineIP is the address at which Pods reach programs of the machine: only those to which package egress forwards
	// connections. It is an address that no host has (RFC 5737).
	MachineIP = "192.0.2.1"
	// DNSIP is the address of the Service of CoreDNS, and Domain is the cluster's domain.
	DNSIP  = "10.96.0.10"
	Domain = "cluster.local"
)

// Paths in a node.
const (
	programs         = "/usr/lib/operator-labs/"
	InitPath         = programs + "init"
	AgentPath        = programs + "agent"
	ControlPlanePath = programs + "controlplane"
	// Etc has the files that the machine has written for the node: certificates, kubeconfigs, the kubelet's configuration.
	// It is read-only.
	Etc = "/etc/operator-labs"
	// Images is the image store, read-only, and Layers has its layers, unpacked.
	Images = "/var/lib/images"
	Layers = "/var/lib/layers"
	// Containers has the files that containers write. State has the agent's records, which are removed with the node.
	Containers = "/var/lib/containers"
	State      = "/run/operator-labs/cri"
	// Reserve is a file that reserves some space for the kubelet on the disk that Pods write to.
	Reserve = "/var/lib/reserve"

	// Cgroups is the control group whose children are the groups of containers, where there is one.
	Cgroups = "/run/operator-labs/cgroups"

	KeeperSocket = "/run/operator-labs/keeper.sock"
	CRISocket    = "/run/operator-labs/cri.sock"
)

// Host has the parameters of the node's process on the machine.
type Host struct {
	// Name is the node's name.
	Name string
	// Dir is the node's folder. The node sees its subfolders etc, var and log.
	Dir string
	// Keep preserves the data of Pods after the node ends. Otherwise the data is kept in memory.
	Keep bool
	// Init, Agent, ControlPlane are the files of the programs.
	Init, Agent, ControlPlane string
	// Images is the folder of the image store. Builder is a command that builds one of the catalogue's images, whose name
	// is its last argument.
	Images  string
	Builder []string
	// API is the API server's address on the machine. In the node it is at the same port of every address.
	API string
	// Egress is the socket through which the API server connects to Pods and Services. Local is the socket of the process
	// that serves Services on the machine (package egress), which takes precedence.
	Egress, Local string
	// Runtime is the socket on the machine that is connected to the node's container runtime (CRISocket). If it is empty,
	// there is none.
	Runtime string
	// KubeletArgs are the kubelet's arguments, including its name, and AgentArgs are the agent's.
	KubeletArgs, AgentArgs []string
	// SingleID limits the node to one ID, even if there are more. It is for tests.
	SingleID bool
}

// Node has the parameters of the node's first process.
type Node struct {
	Name       string
	Root       namespace.Root
	Agent      []string
	Kubelet    []string
	KubeletEnv []string
}

// Limits report which limits of containers have an effect.
type Limits struct{ Memory, CPU bool }

// Status is the report that a part sends when the node runs, or can't run. Reason and Remedy are those of a
// namespace.Unavailable.
type Status struct {
	Limits Limits `json:",omitzero"`

	Error          string `json:",omitempty"`
	Reason, Remedy string `json:",omitempty"`
}
