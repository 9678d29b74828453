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

// portFlags lists flags that keep the program from listening on ports of this machine, where another submission may be
// graded at the same time. The program gets the first flag of each line that it knows: scaffolds before 2021 have
// another name for the first line's flag and lack the second.
var portFlags = [][]string{
	{"metrics-bind-address", "metrics-addr"},
	{"health-probe-bind-address"},
}

// WebhookPortFlag is the name of the flag for the port of the webhooks, in scaffolds that have one.
const WebhookPortFlag = "webhook-port"

// SecurePortFlag is the name of the flag of k8s.io/apiserver for the port of an aggregated API server.
const SecurePortFlag = "secure-port"

// kubeconfigFlag is the usual name of the flag for the kubeconfig file. Some programs find the cluster only through
// this flag.
const kubeconfigFlag = "kubeconfig"

// delegationFlags lists the flags of k8s.io/apiserver for the kubeconfig files of the cluster to which it delegates.
// Without them it uses only a Pod's own account.
var delegationFlags = []string{"authentication-kubeconfig", "authorization-kubeconfig"}

// helpTimeout is the time limit for a program that prints its flags. It only has to parse them, which takes a tenth of
// a second, and several on a very busy machine.
const helpTimeout = 10 * time.Second

// flagLine matches the beginning of a flag's line in the help of packages flag and pflag. Descriptions are indented
// further, so a flag that is only mentioned in one does not match.
var flagLine = regexp.MustCompile(`(?m)^ {0,6}(?:-[A-Za-z0-9], )?--?([a-z][a-z0-9.-]*)(?:[ =]|$)`)

// AskFlags asks the built program for its flags, with -h, because the program would exit if it got an unknown flag. The
// report shows the result as the arguments with which the operator was started.
func (b *Builder) AskFlags(ctx context.Context) error {
	b.Launch = b.deployed()
	if b.System != "" && b.System != runtime.GOOS {
		return nil // it can't run here
	}
	known, err := b.help(ctx)
	if err != nil {
		return err
	}
	b.Launch.Known = known
	for _, names := range portFlags {
		if i := slices.IndexFunc(names, func(name string) bool { return slices.Contains(known, name) }); i >= 0 {
			b.Launch.Flags = append(b.Launch.Flags, "--"+names[i]+"=0")
		}
	}
	for name, flag := range map[string]*string{
		WebhookPortFlag: &b.Launch.WebhookPort, kubeconfigFlag: &b.Launch.Kubeconfig, SecurePortFlag: &b.Launch.SecurePort,
		"tls-cert-file": &b.Launch.Certificate, "tls-private-key-file": &b.Launch.CertificateKey,
		"data-dir": &b.Launch.DataDir, "etcd-servers": &b.Launch.EtcdServers,
	} {
		if slices.Contains(known, name) {
			*flag = "--" + name
		}
	}
	for _, name := range delegationFlags {
		if slices.Contains(known, name) {
			b.Launch.DelegationKubeconfigs = append(b.Launch.DelegationKubeconfigs, "--"+name)
		}
	}
	return nil
}

// help runs the program with -h, without access to any cluster, and returns the flags in its help. A program that does
// something else has none.
func (b *Builder) help(ctx context.Context) (flags []string, err error) {
	home := b.Home()
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("creating the operator's home: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, helpTimeout, errTooLong)
	defer cancel()
	output := limited.NewOutput(outputLimit)
	p, err := b.Scope.Start(process.Spec{
		Name: "the operator", Path: b.Program(), Args: append(slices.Clone(b.Launch.Command), "-h"),
		Dir: home, Stdout: output, Stderr: output,
		// Not in the background, where it might get no time at all. Checks would then report that it has no flags.
		Env: b.Variables(os.DevNull), Contained: true, Walls: b.Walls(nil, nil),
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
