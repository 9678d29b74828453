// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/limited"
)

// portFlags keep the program from listening on ports of this machine, where another one may be graded at the same time.
// Of each line it gets the first that it knows: scaffolds before 2021 call the first one otherwise and lack the second.
var portFlags = [][]string{
	{"metrics-bind-address", "metrics-addr"},
	{"health-probe-bind-address"},
}

// WebhookPortFlag is the name of the flag for the port of the webhooks, in scaffolds that have one.
const WebhookPortFlag = "webhook-port"

// SecurePortFlag is the name of the flag of k8s.io/apiserver for the port of an aggregated API server.
const SecurePortFlag = "secure-port"

// kubeconfigFlag is how most programs call the flag for the file that says how to reach the cluster. Some of them look
// nowhere else.
const kubeconfigFlag = "kubeconfig"

// delegationFlags are how k8s.io/apiserver calls the flags for the files that lead to the cluster that it delegates to.
// Without them it looks for a Pod's own account only.
var delegationFlags = []string{"authentication-kubeconfig", "authorization-kubeconfig"}

// helpTimeout is for a program that is asked for its flags. It only has to parse them, which takes a tenth of a second,
// and on a very busy machine some.
const helpTimeout = 10 * time.Second

// flagLine is how packages flag and pflag begin the line of a flag. What they say of it stands further to the right, so
// a flag that is only spoken of is not taken for one.
var flagLine = regexp.MustCompile(`(?m)^ {0,6}(?:-[A-Za-z0-9], )?--?([a-z][a-z0-9.-]*)(?:[ =]|$)`)

// AskFlags asks the built program for its flags, with -h, because the program would exit if it got an unknown flag. The
// report shows the result as the arguments with which the operator was started.
func (w *Builder) AskFlags(ctx context.Context) error {
	w.Launch = w.deployed()
	if w.System != "" && w.System != runtime.GOOS {
		return nil // it can't run here
	}
	known, err := w.help(ctx)
	if err != nil {
		return err
	}
	w.Launch.Known = known
	for _, names := range portFlags {
		if i := slices.IndexFunc(names, func(name string) bool { return slices.Contains(known, name) }); i >= 0 {
			w.Launch.Flags = append(w.Launch.Flags, "--"+names[i]+"=0")
		}
	}
	for name, flag := range map[string]*string{
		WebhookPortFlag: &w.Launch.WebhookPort, kubeconfigFlag: &w.Launch.Kubeconfig, SecurePortFlag: &w.Launch.SecurePort,
		"tls-cert-file": &w.Launch.Certificate, "tls-private-key-file": &w.Launch.CertificateKey,
		"data-dir": &w.Launch.DataDir, "etcd-servers": &w.Launch.EtcdServers,
	} {
		if slices.Contains(known, name) {
			*flag = "--" + name
		}
	}
	for _, name := range delegationFlags {
		if slices.Contains(known, name) {
			w.Launch.DelegationKubeconfigs = append(w.Launch.DelegationKubeconfigs, "--"+name)
		}
	}
	return nil
}

// help runs the program for its help, without a way to any cluster, and returns the flags that it names there. One that
// does something else names none.
func (w *Builder) help(ctx context.Context) (flags []string, err error) {
	home := w.Home()
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("creating the operator's home: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, helpTimeout, errTooLong)
	defer cancel()
	output := limited.NewOutput(outputLimit)
	p, err := w.Scope.Start(process.Spec{
		Name: "the operator", Path: w.Program(), Args: append(slices.Clone(w.Launch.Command), "-h"), Dir: home, Stdout: output, Stderr: output,
		// Not in the background, where it might get no time at all: without its flags, checks would say that it has none.
		Env: w.Variables(os.DevNull), Contained: true, Walls: w.Walls(nil, nil),
	})
	if err != nil {
		return nil, err
	}
	if err := p.Wait(ctx); ctx.Err() != nil && !errors.Is(err, errTooLong) {
		return nil, err
	}
	for _, found := range flagLine.FindAllStringSubmatch(output.String(), -1) {
		flags = append(flags, found[1])
	}
	return flags, nil
}
