// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"fmt"
	"os"
	"path/filepath"

	"lva.io/operators/scripts/checkout"
)

// BinDir returns the folder of the checkout with the programs that a person can call.
func BinDir(repo *checkout.Checkout) string { return filepath.Join(repo.Root, ".cache", "bin") }

// kubectlScript is the kubectl for users without one on their PATH. Unlike an alias, it also works in their scripts.
const kubectlScript = `#!/bin/sh
# Runs kubectl against the cluster of $KUBECONFIG, or against the playground by default. "make up" writes this file.
# The discovery cache is disabled, because the kinds of a lab change from one command to the next.
root=$(cd "$(dirname "$0")/%s" && pwd)
export KUBECONFIG="${KUBECONFIG:-$root/%s}" KUBECACHEDIR=/dev/null
exec "$root/%s" kubectl "$@"
`

// WriteKubectl writes the script kubectl into BinDir, unless the same script exists there.
func WriteKubectl(repo *checkout.Checkout) error {
	var paths [3]string
	for i, pair := range [][2]string{
		{BinDir(repo), repo.Root}, {repo.Root, repo.Playground().Kubeconfig()}, {repo.Root, repo.ControlPlane.Path},
	} {
		relative, err := filepath.Rel(pair[0], pair[1])
		if err != nil {
			return fmt.Errorf("writing kubectl: %w", err)
		}
		paths[i] = relative
	}
	if err := os.MkdirAll(BinDir(repo), 0o755); err != nil {
		return fmt.Errorf("creating the folder for kubectl: %w", err)
	}
	file, content := filepath.Join(BinDir(repo), "kubectl"), fmt.Sprintf(kubectlScript, paths[0], paths[1], paths[2])
	if have, err := os.ReadFile(file); err == nil && string(have) == content {
		return nil
	}
	if err := os.WriteFile(file, []byte(content), 0o755); err != nil { //nolint:gosec // a program
		return fmt.Errorf("writing kubectl: %w", err)
	}
	return nil
}
