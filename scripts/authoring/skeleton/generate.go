// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package skeleton

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/imports"

	"lva.io/operators/scripts/checkout/command"
)

// Generator generates labs from solutions.
type Generator struct {
	// Root is the folder of the repository.
	Root string
	// ControllerGen is the controller-gen program. It generates the deep copies, CRDs and roles of a lab from the lab's
	// own types.
	ControllerGen string
	// Done is the last step that is done in the generated lab. Default: no step is done.
	Done int
}

// Generate generates the skeleton of a lab (given by the folder's name, such as 02-reconciler) from its solution, in a
// folder that is empty or does not exist yet. It reports mistakes in the solution's markers with file and line.
func (g Generator) Generate(ctx context.Context, lab, dir string) error {
	runner, err := command.NewRunner()
	if err != nil {
		return err
	}
	defer runner.Close()
	return g.generate(ctx, runner, lab, dir, tidyMustWork)
}

// tidying is how a failed `go mod tidy` is handled.
type tidying bool

const (
	// For a maintainer, `go mod tidy` downloads all that it reads, including the tests of everything that the lab
	// compiles.
	tidyMustWork tidying = true
	// For a student who resets a lab, nothing is downloaded. If modules are missing, go.mod may stay as in the solution.
	// It then has more than the lab needs, which does no harm.
	tidyMayFail tidying = false
)

func (g Generator) generate(ctx context.Context, runner *command.Runner, lab, dir string, tidying tidying) error {
	files, err := readFolder(filepath.Join(g.Root, "solutions", lab))
	if err != nil {
		return err
	}
	sources, _, err := parseAll(lab, files)
	if err != nil {
		return err
	}
	if err := checkEmpty(dir); err != nil {
		return err
	}
	skeleton, err := g.skeletonFiles(lab, files, sources)
	if err != nil {
		return err
	}
	if err := writeFiles(dir, skeleton); err != nil {
		return err
	}
	for _, f := range skeleton {
		if path.Ext(f.name) == ".go" {
			if err := fixImports(lab, f, filepath.Join(dir, filepath.FromSlash(f.name))); err != nil {
				return err
			}
		}
	}
	if err := g.manifests(ctx, runner, dir); err != nil {
		return fmt.Errorf("generating from the types of the skeleton of %s: %w", lab, err)
	}
	return tidy(ctx, runner, lab, files, dir, tidying)
}

func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: a skeleton is created in an empty folder, so that it overwrites no work", dir)
	}
	return nil
}

// OfSolution reports whether a file of a solution, given by its path in the solution, is left out of the lab.
func OfSolution(name string) bool {
	return slices.Contains([]string{"README.md", "mutants.yaml", "survivors.yaml", kept}, name)
}

// kept is the name of a file in a solution whose lab begins nearly empty. It names the files and folders that the lab
// has, one per line. Lines that begin with # are comments. Without this file, the lab has all files.
const kept = "skeleton.txt"

// Kept reads skeleton.txt of the solution in a folder. The returned function reports whether the lab has a file of the
// solution. The function is nil if there is no skeleton.txt. Then the lab has all files.
func Kept(solution string) (keep func(name string) bool, err error) {
	content, err := os.ReadFile(filepath.Join(solution, kept))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the initial files of a lab: %w", err)
	}
	named := map[string]bool{}
	for _, name := range keptLines(content) {
		named[name] = true
	}
	return nameFilter(named), nil
}

// keptLines returns the names in the file, by line number.
func keptLines(content []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for n, line := range strings.Split(string(content), "\n") {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && !yield(n+1, line) {
				return
			}
		}
	}
}

// nameFilter returns a function that reports whether a file, or a folder that contains it, is named.
func nameFilter(named map[string]bool) func(name string) bool {
	return func(name string) bool {
		for ; name != "."; name = path.Dir(name) {
			if named[name] {
				return true
			}
		}
		return false
	}
}

// keptFilter returns the function of Kept for the files of a solution. A name without a file is an error.
func keptFilter(lab string, files []file) (func(name string) bool, error) {
	i := slices.IndexFunc(files, func(f file) bool { return f.name == kept })
	if i < 0 {
		return func(string) bool { return true }, nil
	}
	named := map[string]bool{}
	for n, name := range keptLines(files[i].content) {
		if !slices.ContainsFunc(files, func(f file) bool { return f.name == name || strings.HasPrefix(f.name, name+"/") }) {
			return nil, &Problem{
				File: solutionPath(lab, kept), Line: n,
				Message: fmt.Sprintf("the solution has no %s: correct the name, or delete the line", name),
			}
		}
		named[name] = true
	}
	return nameFilter(named), nil
}

// skeletonFiles returns the files of the lab that come from the solution's.
func (g Generator) skeletonFiles(lab string, files []file, sources map[string]*Source) ([]file, error) {
	keep, err := keptFilter(lab, files)
	if err != nil {
		return nil, err
	}
	var skeleton []file
	task := false
	for _, f := range files {
		switch {
		case OfSolution(f.name), Generated(f.name), !keep(f.name):
			continue
		case f.name == "TASK.md":
			task = true
			skeleton = append(skeleton, file{name: "README.md", content: f.content, mode: f.mode})
			continue
		}
		if source, text := sources[f.name]; text {
			f.content = bytes.ReplaceAll(source.Skeleton(g.Done), []byte(solutionsPath), []byte(labsPath))
		}
		skeleton = append(skeleton, f)
	}
	if !task {
		return nil, fmt.Errorf("%s is missing: it becomes the README.md of the lab", solutionPath(lab, "TASK.md"))
	}
	return skeleton, nil
}

// fixImports removes the imports that only the removed code needed, and formats the file.
func fixImports(lab string, f file, target string) error {
	formatted, err := imports.Process(target, f.content, &imports.Options{Comments: true, TabIndent: true, TabWidth: 8})
	if err != nil {
		return fmt.Errorf("the skeleton of %s is not Go: %w", solutionPath(lab, f.name), err)
	}
	had, err := importsOf(f.name, f.content)
	if err != nil {
		return err
	}
	has, err := importsOf(f.name, formatted)
	if err != nil {
		return err
	}
	// imports.Process adds imports that it finds in the modules of this machine. Other machines may have other modules.
	for imported := range has {
		if !had[imported] && strings.Contains(imported, ".") {
			return fmt.Errorf("the lab:else parts of %s need %q: also import it in the solution",
				solutionPath(lab, f.name), imported)
		}
	}
	return os.WriteFile(target, formatted, f.mode)
}

func importsOf(name string, content []byte) (map[string]bool, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("reading the imports: %w", err)
	}
	found := map[string]bool{}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("reading the imports of %s: %w", name, err)
		}
		found[imported] = true
	}
	return found, nil
}

// Manifests regenerates the generated files (see Generated) of the module in a folder, as its Makefile's `make generate
// manifests` does.
func (g Generator) Manifests(ctx context.Context, dir string) error {
	runner, err := command.NewRunner()
	if err != nil {
		return err
	}
	defer runner.Close()
	return g.manifests(ctx, runner, dir)
}

func (g Generator) manifests(ctx context.Context, runner *command.Runner, dir string) error {
	old, err := readFolder(dir)
	if err != nil {
		return err
	}
	for _, f := range old {
		if Generated(f.name) {
			if err := os.Remove(filepath.Join(dir, filepath.FromSlash(f.name))); err != nil {
				return err
			}
		}
	}
	_, err = runner.Run(ctx, dir, nil, g.ControllerGen,
		"object", "crd", "rbac:roleName=manager-role", "webhook",
		"paths=./...", "output:crd:artifacts:config=config/crd/bases")
	return err
}

// tidy updates go.mod and go.sum to what the skeleton imports.
func tidy(ctx context.Context, runner *command.Runner, lab string, solution []file, dir string, tidying tidying) error {
	skeleton, err := readFolder(dir)
	if err != nil {
		return err
	}
	want, err := foreignImports(solution)
	if err != nil {
		return err
	}
	have, err := foreignImports(skeleton)
	if err != nil {
		return err
	}
	// This is the usual case. It is also the only one that needs no module besides those that the lab compiles.
	if maps.Equal(want, have) {
		return nil
	}
	before := map[string][]byte{}
	for _, name := range []string{"go.mod", "go.sum"} {
		if before[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var variables []string
	if tidying == tidyMayFail {
		variables = []string{"GOPROXY=off"}
	}
	_, err = runner.Run(ctx, dir, variables, "go", "mod", "tidy")
	if err == nil || ctx.Err() != nil {
		return err
	}
	if tidying == tidyMustWork {
		return fmt.Errorf("tidying go.mod of the skeleton of %s "+
			"(is there a network, and does `go mod tidy` work in its solution?): %w", lab, err)
	}
	for name, content := range before {
		if content == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// foreignImports returns the packages of other modules that a module's files import.
func foreignImports(files []file) (map[string]bool, error) {
	all := map[string]bool{}
	for _, f := range files {
		if path.Ext(f.name) != ".go" {
			continue
		}
		found, err := importsOf(f.name, f.content)
		if err != nil {
			return nil, err
		}
		for imported := range found {
			first, _, _ := strings.Cut(imported, "/")
			if strings.Contains(first, ".") && !strings.HasPrefix(imported, solutionsPath) &&
				!strings.HasPrefix(imported, labsPath) {
				all[imported] = true
			}
		}
	}
	return all, nil
}

func writeFiles(dir string, files []file) error {
	for _, f := range files {
		target := filepath.Join(dir, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, f.content, f.mode); err != nil {
			return err
		}
	}
	return nil
}
