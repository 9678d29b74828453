// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lva.io/operators/clusters/process"
)

// StopGrace is how long an operator may take to end when it is asked to. Kubernetes gives 30 s; nobody waits that long here.
const StopGrace = 5 * time.Second

// Ending says how a program ended.
func Ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// portFlags keep the program from listening on ports of this machine, where another one may be graded at the same time.
// Of each line it gets the first that it knows: scaffolds before 2021 call the first one otherwise and lack the second.
var portFlags = [][]string{
	{"metrics-bind-address", "metrics-addr"},
	{"health-probe-bind-address"},
}

// webhookPortFlag is how scaffolds that have a flag for it call the port of the webhooks.
const webhookPortFlag = "webhook-port"

// findFlags finds out which flags a program knows. It knows those whose names are in it: to try would be to start it, and
// a program that does not know a flag ends.
func (w *Workshop) findFlags() error {
	content, err := os.ReadFile(w.Program())
	if err != nil {
		return fmt.Errorf("reading the built program: %w", err)
	}
	w.flags = nil
	for _, names := range portFlags {
		i := slices.IndexFunc(names, func(name string) bool { return bytes.Contains(content, []byte(name)) })
		if i >= 0 {
			w.flags = append(w.flags, "--"+names[i]+"=0")
		}
	}
	w.takesWebhookPort = bytes.Contains(content, []byte(webhookPortFlag))
	return nil
}

// StartOperator starts the built program with the account's kubeconfig. Of the user's environment it gets nothing but
// the PATH: no home folder, no other kubeconfig, no proxy. environment is what it gets besides, as NAME=value.
func (w *Workshop) StartOperator(kubeconfig string, output io.Writer, environment ...string) (*process.Process, error) {
	temporary := w.temporary()
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return nil, fmt.Errorf("making the operator's temporary folder: %w", err)
	}
	return w.Scope.Start(process.Spec{
		Name: "the operator", Path: w.Program(), Args: append(slices.Clip(w.flags), w.webhookFlags...), Dir: temporary, Stdout: output, Stderr: output,
		Env: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + temporary, "TMPDIR=" + temporary, "KUBECONFIG=" + kubeconfig},
			environment...),
	})
}

// temporary is the operator's folder for temporary files, which is its home as well.
func (w *Workshop) temporary() string { return filepath.Join(w.Scope.Dir, "tmp") }
