// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout/programs/reference"
)

// Layer is a set of programs that are fetched together.
type Layer struct {
	Name     string
	Programs []Program
	// First reports that the layer also has the modules and packages that a student's first build would download and
	// compile.
	First bool
}

// firstLabs is the number of labs whose checks are in the first layer: those without Pods.
const firstLabs = 4

// Layers returns the layers of an archive of the checkout at root: first the programs that the first labs need, then
// the rest.
func Layers(root string) ([]Layer, error) {
	kubernetes, err := multicall.New(root)
	if err != nil {
		return nil, err
	}
	listed, err := labs(root, "")
	if err != nil {
		return nil, err
	}
	node, err := Node(root)
	if err != nil {
		return nil, err
	}
	addons, err := withAddons(root, known.Names())
	if err != nil {
		return nil, err
	}
	first := slices.Concat([]Program{Lab(root), ControlPlane(kubernetes), ControllerGen(root)}, NodeInit(root))
	var others []Program
	for _, lab := range listed {
		if lab.Number <= firstLabs {
			first = append(first, Checks(root, lab.Name))
		} else {
			others = append(others, Checks(root, lab.Name))
		}
	}
	// The node's first process is in the first layer.
	node = slices.DeleteFunc(node, func(p Program) bool {
		return slices.ContainsFunc(first, func(other Program) bool { return other.Output == p.Output })
	})
	layers := []Layer{{"first", first, true}, {"later", others, false}, {"node", node, false}, {"addons", addons, false}}
	return slices.DeleteFunc(layers, func(l Layer) bool { return len(l.Programs) == 0 }), nil
}

// installFromArchive installs the stale programs that fit from the archive that the checkout names. It writes any
// problem to out and returns no error, because everything is built then. A separate program does this, since an HTTP
// client would double the time in which the bootstrap is compiled.
func installFromArchive(ctx context.Context, root string, out *os.File, stale []Program) {
	_, named, err := reference.Locked(root, runtime.GOOS+"/"+runtime.GOARCH)
	if err == nil && !named {
		return
	}
	if err == nil {
		err = runArchiveInstaller(ctx, root, out, stale)
	}
	// The program has already printed its own error.
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && ctx.Err() == nil {
		fmt.Fprintf(out, "Prebuilt programs can't be used: %v. Compiling them instead.\n", err)
	}
}

func runArchiveInstaller(ctx context.Context, root string, out *os.File, stale []Program) (err error) {
	installer := ArchiveInstaller(root)
	if !installer.Fresh() {
		if err := build(ctx, out, installer); err != nil {
			return err
		}
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	var files []string
	for _, program := range stale {
		files = append(files, program.Output)
	}
	p, err := scope.Start(process.Spec{Path: installer.Output, Args: files, Dir: root, Stdout: out, Stderr: out})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// All returns the programs of all layers.
func All(layers []Layer) (all []Program) {
	for _, layer := range layers {
		all = append(all, layer.Programs...)
	}
	return all
}

// Targets returns the build targets of programs.
func Targets(programs []Program) (targets []gobuild.Target) {
	for _, program := range programs {
		targets = append(targets, program.Target)
	}
	return targets
}
