// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command node runs Kubernetes' programs of a node as one multi-call program: kubelet, kubeadm and kubectl. The code of
// these programs comes from their own Go modules. This file only selects one by the name of the command (a symbolic
// link) or by the first argument. The control plane is another such program (clusters/controlplane). Both use the same
// versions of their modules, and so share every package that both compile.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // the kubelet's JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the kubelet's metrics of its client
	_ "k8s.io/component-base/metrics/prometheus/version"  // and of its version
	"k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmutil "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	name := filepath.Base(os.Args[0])
	if name == "node" && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	switch name {
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kubeadm":
		kubeadmutil.HandleError(kubeadm.Run())
	case "kubectl":
		// kubectl words its errors and chooses its exit codes itself.
		if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	default:
		fmt.Fprintf(os.Stderr, "node: unknown program %q: call it as kubelet, kubeadm or kubectl\n", name)
		os.Exit(2)
	}
}
