// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package checkout knows where things are in a checkout of this repository, and builds the programs that a grading run
// needs when they are missing or old. It runs none of them.
package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/mod/modfile"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/manifest"
)

// Checkout is a checkout of this repository.
type Checkout struct {
	// Root is its top folder, absolute.
	Root string
	// ControlPlane is the embedded cluster's program.
	ControlPlane *embedded.Program
	// Labs is the list of labs.
	Labs *manifest.Manifest
}

// Find finds the checkout: the one that our own program was built in (.cache/bin/lab), so that it can be called from
// anywhere, or the one around the working folder.
func Find() (*Checkout, error) {
	var starts []string
	if executable, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(executable); err == nil {
			starts = append(starts, filepath.Dir(resolved))
		}
	}
	if folder, err := os.Getwd(); err == nil {
		starts = append(starts, folder)
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(manifest.File))); err == nil {
				return open(dir)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil, errors.New("this is not a checkout of Operator Labs: change into one, or call its .cache/bin/lab")
}

func open(root string) (*Checkout, error) {
	program, err := embedded.NewProgram(root)
	if err != nil {
		return nil, err
	}
	labs, err := manifest.Load(root)
	if err != nil {
		return nil, err
	}
	return &Checkout{Root: root, ControlPlane: program, Labs: labs}, nil
}

// Modules are the folders of the workspace's modules, slash-separated, as go.work lists them.
func (c *Checkout) Modules() ([]string, error) {
	file := filepath.Join(c.Root, "go.work")
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the workspace: %w", err)
	}
	work, err := modfile.ParseWork(file, content, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the workspace: %w", err)
	}
	var modules []string
	for _, use := range work.Use {
		modules = append(modules, path.Clean(use.Path))
	}
	return modules, nil
}

// Dir is the folder of a student's lab, SolutionDir that of its solution.
func (c *Checkout) Dir(lab *manifest.Lab) string { return filepath.Join(c.Root, "labs", lab.Name) }

// SolutionDir is the folder of a lab's solution.
func (c *Checkout) SolutionDir(lab *manifest.Lab) string {
	return filepath.Join(c.Root, "solutions", lab.Name)
}

// Out is the folder of a lab's reports. It is made if need be.
func (c *Checkout) Out(name string) (string, error) {
	dir := filepath.Join(c.Root, "out", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the folder for reports: %w", err)
	}
	return dir, nil
}

// BuildCache is the folder that keeps the built program of the submission in a folder. Those outside the checkout have
// none: nobody would ever remove what piled up.
func (c *Checkout) BuildCache(submission string) string {
	name, err := filepath.Rel(c.Root, submission)
	if err != nil || !filepath.IsLocal(name) {
		return ""
	}
	return filepath.Join(c.Root, ".cache", "submissions", name)
}

// Playground is the checkout's cluster to play in.
func (c *Checkout) Playground() *embedded.Playground { return embedded.NewPlayground(c.Root) }

// EnsureControlPlane builds the control plane unless it is there, with a bar that shows how far it is.
func (c *Checkout) EnsureControlPlane(ctx context.Context) error {
	if c.ControlPlane.Fresh() {
		return nil
	}
	return show("build Kubernetes "+c.ControlPlane.Version+" (once)", func(update gobuild.Progress) error {
		return c.ControlPlane.Ensure(ctx, update)
	})
}

// ControllerGen is the program that makes manifests from markers; it is built unless it is there.
func (c *Checkout) ControllerGen(ctx context.Context) (string, error) {
	return c.tool(ctx, "controller-gen", "sigs.k8s.io/controller-tools/cmd/controller-gen")
}

// GolangCILint is the linter; it is built unless it is there.
func (c *Checkout) GolangCILint(ctx context.Context) (string, error) {
	return c.tool(ctx, "golangci-lint", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint")
}

func (c *Checkout) tool(ctx context.Context, name, pkg string) (string, error) {
	target := gobuild.Target{
		Package: pkg, Module: filepath.Join(c.Root, "scripts", "tools"), Output: filepath.Join(c.Root, ".cache", "bin", name),
	}
	return target.Output, ensure(ctx, target, "build "+name+" (once)")
}

// Checks is the test binary of a lab's checks; it is built unless it is there and fits its sources.
func (c *Checkout) Checks(ctx context.Context, lab *manifest.Lab) (string, error) {
	scripts := filepath.Join(c.Root, "scripts")
	target := gobuild.Target{
		Package: "./checks/" + lab.Name, Module: scripts, Test: true,
		Output: filepath.Join(c.Root, ".cache", "checks", lab.Name),
		// What the checks import, and no more: whoever works on the rest of the harness does not wait for them.
		Sources: []string{
			filepath.Join(scripts, "checks"), filepath.Join(scripts, "audit"), filepath.Join(scripts, "manifest"),
			filepath.Join(scripts, "report"), filepath.Join(scripts, "faults"), filepath.Join(scripts, "freezer"),
		},
	}
	return target.Output, ensure(ctx, target, "build the checks of lab "+lab.Name)
}

func ensure(ctx context.Context, target gobuild.Target, what string) error {
	if target.Fresh() {
		return nil
	}
	return show(what, func(update gobuild.Progress) error { return target.Ensure(ctx, update) })
}

// show does a long piece of work with a bar on standard error.
func show(what string, work func(gobuild.Progress) error) error {
	bar := progress.Start(os.Stderr, what)
	if err := work(bar.Set); err != nil {
		bar.Fail()
		return err
	}
	bar.Done()
	return nil
}
