// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// StartOperator starts the built program with the account's kubeconfig, which it finds in all the places where operators look
// for one, and as the submission's own Deployment starts it. Of the user's environment it gets nothing but the PATH: no home
// folder, no other kubeconfig, no proxy. environment is what it gets besides, as NAME=value.
func (w *Workshop) StartOperator(kubeconfig string, output io.Writer, environment ...string) (*process.Process, error) {
	temporary := w.temporary()
	home := filepath.Join(temporary, ".kube")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("making the operator's temporary folder: %w", err)
	}
	if err := os.Symlink(kubeconfig, filepath.Join(home, "config")); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("linking the operator's kubeconfig: %w", err)
	}
	arguments := w.Arguments()
	if w.takesKubeconfig {
		arguments = append(arguments, "--"+kubeconfigFlag+"="+kubeconfig)
	}
	return w.Scope.Start(process.Spec{
		Name: "the operator", Path: w.Program(), Args: arguments, Dir: temporary, Stdout: output, Stderr: output,
		Env: merged(w.launch.environment, operatorEnvironment(temporary, kubeconfig), environment), Contained: true,
	})
}

// operatorEnvironment is what an operator gets in any case.
func operatorEnvironment(temporary, kubeconfig string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + temporary, "TMPDIR=" + temporary, "KUBECONFIG=" + kubeconfig}
}

// temporary is the operator's folder for temporary files, which is its home as well.
func (w *Workshop) temporary() string { return filepath.Join(w.Scope.Dir, "tmp") }
