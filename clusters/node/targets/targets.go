// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package targets describes how to build the programs of a node: its own, and those of the Pods that every node or an
// add-on runs. It imports little enough for the bootstrap to import it, and builds nothing.
package targets

import (
	"path/filepath"
	"strings"
	"time"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/progress"
)

// Program describes how to build a program. Its Work is the work of building it after the control plane and after the
// programs before it in this file, on the machine of docs/benchmarks.md, with nothing else in Go's caches.
type Program struct {
	gobuild.Target
	progress.Work
}

// Node returns the node's own programs in the checkout at root.
func Node(root string) []Program { return []Program{Init(root), Agent(root), ImageBuild(root)} }

// Init is the node's first process, which can also test whether there can be a node.
func Init(root string) Program {
	return Program{own(root, "init"), progress.Work{
		What:    "the node's first process",
		Modules: 5, Download: time.Second, Packages: 27, Compile: 3 * time.Second, Link: time.Second,
	}}
}

// Agent is the node's container runtime, which also manages its network.
func Agent(root string) Program {
	return Program{own(root, "agent"), progress.Work{
		What:    "the node's agent",
		Modules: 1, Packages: 9, Compile: 2 * time.Second, Link: 2 * time.Second,
	}}
}

// ImageBuild builds an image of the catalogue when a Pod requires it.
func ImageBuild(root string) Program {
	return Program{own(root, "imagebuild"), progress.Work{
		What:     "the image builder",
		Packages: 7, Compile: time.Second, Link: time.Second,
	}}
}

// own returns the target of a package main below clusters/node.
func own(root, name string) gobuild.Target {
	return gobuild.Target{
		Package: "./node/" + name, Module: filepath.Join(root, "clusters"),
		Output: filepath.Join(root, ".cache", "node", name),
	}
}

// Pods returns the programs of the images that package manifests runs on every node: CoreDNS, and the provisioner of
// local-path with the shell of its helpers. They are built as the catalogue of images specifies
// (clusters/images/catalogue.yaml), and to the paths where its store looks for them. The catalogue's test compares
// them. Pods returns an error if a go.mod does not require the module that is built.
func Pods(root string) ([]Program, error) {
	const provisioner = "github.com/rancher/local-path-provisioner"
	sources := filepath.Join(root, "clusters", "images", "programs")
	version, err := gobuild.Required(filepath.Join(sources, "localpath"), provisioner)
	if err != nil {
		return nil, err
	}
	built := filepath.Join(root, ".cache", "images", "programs")
	return []Program{
		{
			gobuild.Target{Package: ".", Module: filepath.Join(sources, "coredns"), Output: filepath.Join(built, "coredns")},
			progress.Work{
				What:     "CoreDNS",
				Modules:  35,
				Download: 5 * time.Second,
				Packages: 516,
				Compile:  57 * time.Second,
				Link:     3 * time.Second,
			},
		},
		{
			gobuild.Target{
				Package:   provisioner,
				Module:    filepath.Join(sources, "localpath"),
				Output:    filepath.Join(built, "local-path-provisioner"),
				LinkFlags: []string{"-X", "main.VERSION=" + version},
			},
			progress.Work{
				What:    "the provisioner of volumes",
				Modules: 41, Download: 5 * time.Second, Packages: 485, Compile: 53 * time.Second, Link: 2 * time.Second,
			},
		},
		{
			gobuild.Target{Package: ".", Module: filepath.Join(sources, "shell"), Output: filepath.Join(built, "shell")},
			progress.Work{
				What:     "the shell of volumes",
				Modules:  2,
				Download: time.Second,
				Packages: 9,
				Compile:  2 * time.Second,
				Link:     time.Second,
			},
		},
	}, nil
}

// Addon returns the programs of an add-on's images, given its name in package known of clusters/addons. It returns none
// for another name. They are built as the catalogue specifies, too. Their Work, and that of package programs in
// scripts, is estimated from the number of packages that the programs before them do not have. Addon returns an error
// if a go.mod does not require the module that is built.
func Addon(root, name string) ([]Program, error) {
	sources := filepath.Join(root, "clusters", "images", "programs")
	built := filepath.Join(root, ".cache", "images", "programs")
	switch name {
	case "cert-manager":
		const certManager = "github.com/cert-manager/cert-manager"
		version, err := gobuild.Required(filepath.Join(sources, "certmanager"), certManager)
		if err != nil {
			return nil, err
		}
		return []Program{{
			gobuild.Target{
				Package: ".", Module: filepath.Join(sources, "certmanager"), Output: filepath.Join(built, "certmanager"),
				LinkFlags: []string{"-X", certManager + "/pkg/util.AppVersion=" + version},
			},
			progress.Work{
				What: "cert-manager", Modules: 71, Download: 10 * time.Second,
				Packages: 665, Compile: 73 * time.Second, Link: 4 * time.Second,
			},
		}}, nil
	case "pebble":
		const pebble = "github.com/letsencrypt/pebble/v2"
		version, err := gobuild.Required(filepath.Join(sources, "pebble"), pebble)
		if err != nil {
			return nil, err
		}
		return []Program{{
			gobuild.Target{
				Package: pebble + "/cmd/pebble", Module: filepath.Join(sources, "pebble"), Output: filepath.Join(built, "pebble"),
				LinkFlags: []string{"-X", "main.version=" + strings.TrimPrefix(version, "v")},
			},
			progress.Work{
				What:     "Pebble",
				Modules:  6,
				Download: time.Second,
				Packages: 19,
				Compile:  3 * time.Second,
				Link:     time.Second,
			},
		}}, nil
	case "ingress":
		return []Program{{
			gobuild.Target{Package: ".", Module: filepath.Join(sources, "ingress"), Output: filepath.Join(built, "ingress")},
			progress.Work{
				What: "the Ingress controller", Modules: 2, Download: time.Second,
				Packages: 46, Compile: 5 * time.Second, Link: 2 * time.Second,
			},
		}}, nil
	}
	return nil, nil
}
