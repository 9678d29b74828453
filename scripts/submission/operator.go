// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// operatorFlags keep the program from listening on ports of this machine. Scaffolds of all years know both.
var operatorFlags = []string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}

// StartOperator starts the built program with the account's kubeconfig. Of the user's environment it gets nothing but
// the PATH: no home folder, no other kubeconfig, no proxy.
func (w *Workshop) StartOperator(kubeconfig string, output io.Writer) (*process.Process, error) {
	temporary := filepath.Join(w.Scope.Dir, "tmp")
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return nil, fmt.Errorf("making the operator's temporary folder: %w", err)
	}
	return w.Scope.Start(process.Spec{
		Name: "the operator", Path: w.Program(), Args: operatorFlags, Dir: temporary, Stdout: output, Stderr: output,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + temporary, "TMPDIR=" + temporary, "KUBECONFIG=" + kubeconfig},
	})
}
