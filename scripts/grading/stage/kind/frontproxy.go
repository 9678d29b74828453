// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/embedded"
)

// FrontProxy is the front proxy of a kind cluster.
type FrontProxy struct {
	// Node is the container of the control plane.
	Node string
}

// Files copies its certificate and its key into a folder. Anyone who has the key can act as any user at an aggregated
// API server. Therefore only the owner can read the copies, and the folder is removed with the run.
func (f FrontProxy) Files(ctx context.Context, dir string) (embedded.FrontProxy, error) {
	made := embedded.FrontProxy{Cert: filepath.Join(dir, "front-proxy.crt"), Key: filepath.Join(dir, "front-proxy.key")}
	for from, to := range map[string]string{docker.FrontProxyCert: made.Cert, docker.FrontProxyKey: made.Key} {
		if err := f.copy(ctx, from, to); err != nil {
			return embedded.FrontProxy{}, fmt.Errorf("copying %s from the node %s: %w", from, f.Node, err)
		}
	}
	return made, nil
}

func (f FrontProxy) copy(ctx context.Context, from, to string) error {
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	return docker.Exec(ctx, f.Node, nil, file, "cat", from)
}
