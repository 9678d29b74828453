// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command controlplane runs Kubernetes' control plane as one multi-call program: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl, and the kubelet of its node. The code of these programs comes
// from their own Go modules. This file only selects one by the name of the command (a symbolic link) or by the first
// argument.
//
// One program instead of six takes less disk, is linked once, and lets the processes of a cluster share the memory of
// their code.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubescheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/pkg/scheduler"
)

func main() {
	name := filepath.Base(os.Args[0])
	if name == "controlplane" && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	var command *cobra.Command
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "kubectl":
		// kubectl words its errors and chooses its exit codes itself.
		if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
		return
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		command = kubescheduler.NewSchedulerCommand()
		// This is the only flag that is not Kubernetes' own. The Events and conditions of a Pod that is Pending contain these
		// words.
		command.Flags().Func("no-node", "why the cluster has no node", func(why string) error {
			scheduler.ErrNoNodesAvailable = fmt.Errorf("%w: %s", scheduler.ErrNoNodesAvailable, why)
			return nil
		})
	case "kubelet":
		command = kubelet.NewKubeletCommand(context.Background())
	default:
		fmt.Fprintf(os.Stderr, "controlplane: unknown program %q: "+
			"call it as etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet or kubectl\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
