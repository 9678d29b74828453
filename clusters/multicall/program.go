// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package multicall describes the one program that is etcd, kube-apiserver, the controllers and kubectl of a checkout:
// its release of Kubernetes, and how to build it. It does not run the program, and imports little enough for the
// bootstrap to import it.
package multicall

import (
	"fmt"
	"path/filepath"
	"strings"

	"lva.io/operators/clusters/gobuild"
)

// Program is the control plane's multi-call program in a checkout of this repository.
type Program struct {
	// Path is the program's file.
	Path string
	// Version is its Kubernetes release, such as v1.36.3.
	Version string
	gobuild.Target
}

// New returns the control plane's program of the checkout at root. Its version is that of k8s.io/kubernetes in
// clusters/controlplane/go.mod, and is written nowhere else.
func New(root string) (*Program, error) {
	module := filepath.Join(root, "clusters", "controlplane")
	version, err := gobuild.Required(module, "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(root, ".cache", "controlplane", "controlplane")
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return nil, fmt.Errorf("the version of k8s.io/kubernetes, %q, is not of the form v1.2.3", version)
	}
	// Without these variables the server reports v0.0.0-master, and clients and charts refuse to work with it.
	const variables = "k8s.io/component-base/version."
	return &Program{Path: path, Version: version, Target: gobuild.Target{
		Package: ".", Module: module, Output: path,
		LinkFlags: []string{
			"-X", variables + "gitVersion=" + version, "-X", variables + "gitMajor=" + parts[0],
			"-X", variables + "gitMinor=" + parts[1],
		},
	}}, nil
}
