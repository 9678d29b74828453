// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package targets is how the programs of a node are built: its own, and those of the Pods that every node runs. It imports so little
// that the bootstrap can know it, and builds nothing.
package targets

import (
	"path/filepath"

	"lva.io/operators/clusters/gobuild"
)

// Node are the node's own programs in the checkout at root: init, agent and imagebuild, in .cache/node.
func Node(root string) []gobuild.Target {
	var all []gobuild.Target
	for _, name := range []string{"init", "agent", "imagebuild"} {
		all = append(all, gobuild.Target{
			Package: "./node/" + name, Module: filepath.Join(root, "clusters"), Output: filepath.Join(root, ".cache", "node", name),
		})
	}
	return all
}

// Pods are the programs of the images that package manifests has every node run: CoreDNS, and the provisioner of local-path with the
// shell of its helpers. They are built as the catalogue of images says (clusters/images/catalogue.yaml), whose test compares, and where its store looks for them. The
// error is that of a go.mod which does not require what is built.
func Pods(root string) ([]gobuild.Target, error) {
	const provisioner = "github.com/rancher/local-path-provisioner"
	sources := filepath.Join(root, "clusters", "images", "programs")
	version, err := gobuild.Required(filepath.Join(sources, "localpath"), provisioner)
	if err != nil {
		return nil, err
	}
	built := filepath.Join(root, ".cache", "images", "programs")
	return []gobuild.Target{
		{Package: ".", Module: filepath.Join(sources, "coredns"), Output: filepath.Join(built, "coredns")},
		{
			Package: provisioner, Module: filepath.Join(sources, "localpath"), Output: filepath.Join(built, "local-path-provisioner"),
			LinkFlags: []string{"-X", "main.VERSION=" + version},
		},
		{Package: ".", Module: filepath.Join(sources, "shell"), Output: filepath.Join(built, "shell")},
	}, nil
}
