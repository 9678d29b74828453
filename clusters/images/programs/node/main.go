// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command node is what Kubernetes runs on a node, in one multi-call program: kubelet, kubeadm and kubectl. It is those
// programs' own code, from Go modules; this file only chooses one by the name it is called by (a symbolic link) or by
// its first argument. The control plane is another such program (clusters/controlplane), with which this one shares
// every package that both compile: their modules have the same versions.
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
		fmt.Fprintf(os.Stderr, "node: %q is not a program of it: call it as kubelet, kubeadm or kubectl\n", name)
		os.Exit(2)
	}
}
