// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package programs lists the programs that are built from this repository, and builds those that are missing or stale.
// It imports little, so that the bootstrap, which builds the first of them, can list all of them. It runs none of them.
package programs

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/node/targets"
	"lva.io/operators/clusters/progress"
)

// Program is a program that is built from this repository. Its Work is the time that its build takes after the programs
// before it in this file, on the machine of docs/benchmarks.md, if Go's caches were empty at first.
type Program struct {
	gobuild.Target
	progress.Work
}

// Lab returns the lab command of the checkout at root.
func Lab(root string) Program {
	return Program{command(root, "lab"), progress.Work{
		What:    "the lab command",
		Modules: 82, Download: 12 * time.Second, Packages: 826, Compile: 90 * time.Second, Link: 3 * time.Second,
	}}
}

// Cluster returns the cluster command, which is for instructors.
func Cluster(root string) Program {
	return Program{command(root, "cluster"), progress.Work{
		What:    "the cluster command",
		Modules: 132, Download: 20 * time.Second, Packages: 1010, Compile: 125 * time.Second, Link: 4 * time.Second,
	}}
}

// ArchiveInstaller returns the program that installs prebuilt programs from an archive.
func ArchiveInstaller(root string) Program {
	return Program{command(root, "arrive"), progress.Work{
		What:    "an installer of prebuilt programs",
		Modules: 2, Download: time.Second, Packages: 90, Compile: 10 * time.Second, Link: time.Second,
	}}
}

// command returns the target of a package of scripts/cmd.
func command(root, name string) gobuild.Target {
	return gobuild.Target{Package: "./cmd/" + name, Module: filepath.Join(root, "scripts"), Output: bin(root, name)}
}

func bin(root, name string) string { return filepath.Join(root, ".cache", "bin", name) }

// ControlPlane returns the program of the embedded cluster.
func ControlPlane(program *multicall.Program) Program {
	return Program{program.Target, progress.Work{
		What:    "Kubernetes " + strings.TrimPrefix(program.Version, "v"),
		Modules: 118, Download: 15 * time.Second, Packages: 1918, Compile: 210 * time.Second, Link: 8 * time.Second,
	}}
}

// nodes reports whether there can be nodes for the embedded cluster. Elsewhere none of their programs is built.
const nodes = runtime.GOOS == "linux"

// NodeInit returns the program of the node's first process, which finds out whether a node can run here. It returns
// none if it is already known that no node can run here.
func NodeInit(root string) []Program {
	if !nodes {
		return nil
	}
	return []Program{Program(targets.Init(root))}
}

// Node returns the programs of a node for the embedded cluster, and of the Pods that every node runs. It returns none
// if no node can run here.
func Node(root string) ([]Program, error) {
	if !nodes {
		return nil, nil
	}
	pods, err := targets.Pods(root)
	if err != nil {
		return nil, err
	}
	var all []Program
	for _, program := range slices.Concat(targets.Node(root), pods) {
		all = append(all, Program(program))
	}
	return all, nil
}

// Addons returns the program that installs add-ons. It contains the Helm SDK, which no command of students does.
func Addons(root string) Program {
	return Program{
		gobuild.Target{Package: "./addons/install", Module: filepath.Join(root, "clusters"), Output: bin(root, "addons")},
		progress.Work{
			What:    "the installer of add-ons",
			Modules: 29, Download: 4 * time.Second, Packages: 176, Compile: 20 * time.Second, Link: 3 * time.Second,
		},
	}
}

// ControllerGen returns the pinned controller-gen, which generates manifests from markers.
func ControllerGen(root string) Program {
	return Program{tool(root, "controller-gen", "sigs.k8s.io/controller-tools/cmd/controller-gen"), progress.Work{
		What:    "controller-gen",
		Modules: 36, Download: 5 * time.Second, Packages: 163, Compile: 20 * time.Second, Link: time.Second,
	}}
}

// ClientGenerators returns the pinned programs of k8s.io/code-generator that generate clients, listers and informers,
// in this order.
func ClientGenerators(root string) (all []Program) {
	for _, name := range []string{"client-gen", "lister-gen", "informer-gen"} {
		all = append(all, Program{tool(root, name, "k8s.io/code-generator/cmd/"+name), progress.Work{
			What:    name,
			Modules: 20, Download: 3 * time.Second, Packages: 90, Compile: 8 * time.Second, Link: time.Second,
		}})
	}
	return all
}

// GolangCILint returns the pinned linter.
func GolangCILint(root string) Program {
	return Program{tool(root, "golangci-lint", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"), progress.Work{
		What:    "golangci-lint",
		Modules: 180, Download: 20 * time.Second, Packages: 1050, Compile: 130 * time.Second, Link: 5 * time.Second,
	}}
}

// Gotestsum returns the pinned gotestsum, which runs the unit tests.
func Gotestsum(root string) Program {
	return Program{tool(root, "gotestsum", "gotest.tools/gotestsum"), progress.Work{
		What:    "gotestsum",
		Modules: 14, Download: 2 * time.Second, Packages: 120, Compile: 8 * time.Second, Link: time.Second,
	}}
}

// Helm returns Helm's own command, at the version whose SDK installs add-ons.
func Helm(root string) Program {
	return Program{tool(root, "helm", "helm.sh/helm/v3/cmd/helm"), progress.Work{
		What:    "Helm",
		Modules: 110, Download: 12 * time.Second, Packages: 954, Compile: 90 * time.Second, Link: 3 * time.Second,
	}}
}

// tool returns a program of the module scripts/checkout/tools, which pins them.
func tool(root, name, pkg string) gobuild.Target {
	return gobuild.Target{
		Package: pkg, Module: filepath.Join(root, "scripts", "checkout", "tools"),
		Output: bin(root, name),
	}
}

// Checks returns the test binary of a lab's checks. name is the name of the lab's folder.
func Checks(root, name string) Program {
	return Program{
		gobuild.Target{
			Package: "./checks/" + name, Module: filepath.Join(root, "scripts"),
			Test: true, Output: filepath.Join(root, ".cache", "checks", name),
		},
		progress.Work{
			What:    "the checks of lab " + name,
			Modules: 4, Download: time.Second, Packages: 21, Compile: 10 * time.Second, Link: 4 * time.Second,
		},
	}
}

// Conformance returns Kubernetes' own conformance suite, at the version of the control plane.
func Conformance(root string) Program {
	return Program{
		gobuild.Target{
			Package: "k8s.io/kubernetes/test/e2e",
			Module:  filepath.Join(root, "clusters", "images", "programs", "conformance"),
			Test:    true, Output: filepath.Join(root, ".cache", "conformance", "e2e.test"),
		},
		progress.Work{
			What:    "Kubernetes' conformance suite",
			Modules: 40, Download: 10 * time.Second, Packages: 900, Compile: 150 * time.Second, Link: 10 * time.Second,
		},
	}
}

// Ensure installs the programs of the checkout at root that are missing or stale from the archive that the checkout
// names. It builds those that the archive does not have, one after another, and shows its progress on out.
func Ensure(ctx context.Context, root string, out *os.File, all ...Program) error {
	stale := slices.DeleteFunc(slices.Clone(all), func(p Program) bool { return p.Fresh() })
	if len(stale) > 0 {
		installFromArchive(ctx, root, out, stale)
		stale = slices.DeleteFunc(stale, func(p Program) bool { return p.Fresh() })
	}
	return build(ctx, out, stale...)
}

// build builds programs that are stale.
func build(ctx context.Context, out *os.File, stale ...Program) error {
	var works []progress.Work
	for _, program := range stale {
		works = append(works, program.Work)
	}
	plan := progress.NewPlan(out, works...)
	for _, program := range stale {
		bar := plan.Next()
		if err := program.Ensure(ctx, bar.Set); err != nil {
			bar.Fail()
			return err
		}
		bar.Done()
	}
	return nil
}

// For lists the programs that a goal of the Makefile needs besides the command that it calls, because the command can't
// list them before it is built itself. variables are the variables of the Makefile that were set: ADDONS, NODE and
// CLUSTER count. If a goal is missing here, only the total of the progress is too small, because each command builds
// what it needs.
func For(root, goal string, variables map[string]string) ([]Program, error) {
	kubernetes, err := multicall.New(root)
	if err != nil {
		return nil, err
	}
	graded := []Program{ControlPlane(kubernetes), ControllerGen(root)}
	node, err := Node(root)
	if err != nil {
		return nil, err
	}
	name, number, _ := strings.Cut(goal, "-")
	if _, err := strconv.Atoi(number); err == nil {
		goal = name + "-N"
	}
	switch goal {
	case "up":
		if wanted, err := strconv.ParseBool(variables["NODE"]); err == nil && !wanted {
			return graded[:1], nil
		}
		addons, err := withAddons(root, strings.FieldsFunc(variables["ADDONS"], func(r rune) bool { return r == ',' }))
		return slices.Concat(graded[:1], node, addons), err
	case "bench":
		return slices.Concat(graded[:1], node), nil
	case "conformance":
		return slices.Concat(graded[:1], node, []Program{Conformance(root)}), nil
	case "zombie", "experiment-state", "tests-N":
		return graded[:1], nil
	case "run-N":
		return graded, nil
	case "unit":
		addons, err := withAddons(root, known.Names())
		return slices.Concat(graded, node, addons, []Program{Gotestsum(root)}), err
	case "lab-N", "solution-N", "watch-N", "torture-N":
		wanted, err := labs(root, number)
		if len(wanted) == 0 {
			return nil, err // the lab command reports at once that there is no such lab
		}
		more, err := grading(root, variables["CLUSTER"] == "", wanted...)
		return append(graded, more...), err
	case "grade", "certify", "mutate", "soak", "test":
		all, err := labs(root, "")
		if err != nil {
			return nil, err
		}
		more, err := grading(root, true, all...)
		if err != nil || goal != "test" {
			return append(graded, more...), err
		}
		addons, err := withAddons(root, known.Names()) // the unit tests install each of them
		return unique(slices.Concat(graded, more, node, addons, []Program{Gotestsum(root)})), err
	case "verify", "fix":
		return []Program{ControllerGen(root), GolangCILint(root)}, nil
	}
	return nil, nil
}

// unique removes duplicate programs.
func unique(all []Program) (each []Program) {
	for _, program := range all {
		if !slices.ContainsFunc(each, func(other Program) bool { return other.Output == program.Output }) {
			each = append(each, program)
		}
	}
	return each
}
