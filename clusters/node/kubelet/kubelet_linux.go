// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kubelet

import (
	_ "embed"
	"strings"

	"lva.io/operators/clusters/node/plan"
)

//go:embed kubelet.yaml
var configuration string

// The files of the kubelet, in plan.Etc.
const (
	ConfigurationFile = "kubelet.yaml"
	KubeconfigFile    = "kubelet.kubeconfig"
	CertificateFile   = "kubelet.crt"
	KeyFile           = "kubelet.key"
	AuthorityFile     = "ca.crt"
)

// Configuration returns the kubelet's configuration.
func Configuration() []byte {
	return []byte(strings.NewReplacer(
		"{NodeIP}", plan.NodeIP,
		"{Etc}", plan.Etc,
		"{CRISocket}", plan.CRISocket,
		"{DNSIP}", plan.DNSIP,
		"{Domain}", plan.Domain,
	).Replace(configuration))
}

// Args returns the arguments of the kubelet of the node with a name, including its own name.
func Args(node string) []string {
	return []string{
		"kubelet", "--config=" + plan.Etc + "/" + ConfigurationFile, "--kubeconfig=" + plan.Etc + "/" + KubeconfigFile,
		"--hostname-override=" + node, "--node-ip=" + plan.NodeIP, "--cert-dir=/run/operator-labs/kubelet",
		// A quiet API server takes a second to end a list that is a stream, and the kubelet starts with many lists.
		"--feature-gates=WatchListClient=false",
	}
}
