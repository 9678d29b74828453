// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package changes finds the files of a checkout that differ from an earlier commit, and the packages that this
// concerns. It does not decide which labs are graded because of it: package certify does.
package changes

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/checkout/command"
)

// Changes are the differences between a commit and the files of a checkout.
type Changes struct {
	root, commit string
	runner       *command.Runner
	files        []string        // from the root, with slashes
	same         map[string]bool // what SameCode has found, by file
}

// Since finds what differs between a commit and the files of the checkout at root. It returns an error if the
// repository does not have the commit.
func Since(ctx context.Context, runner *command.Runner, root, commit string) (*Changes, error) {
	c := &Changes{root: root, commit: commit, runner: runner, same: map[string]bool{}}
	if _, err := c.git(ctx, "rev-parse", "--verify", "--quiet", commit+"^{commit}"); err != nil {
		return nil, fmt.Errorf("there is no commit %s in this repository: name one that `git log` shows", commit)
	}
	out, err := c.git(ctx, "diff", "--name-only", "--no-renames", "-z", commit, "--")
	if err != nil {
		return nil, fmt.Errorf("listing the changes since %s: %w", commit, err)
	}
	untracked, err := c.git(ctx, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, fmt.Errorf("listing untracked files: %w", err)
	}
	for name := range strings.SplitSeq(out+"\x00"+untracked, "\x00") {
		if name != "" {
			c.files = append(c.files, name)
		}
	}
	return c, nil
}

// Commit returns the commit that was passed to Since.
func (c *Changes) Commit() string { return c.commit }

// Before returns the content of a file at the commit. The name of the file is slash-separated and relative to the root.
// The content is empty if there was no such file.
func (c *Changes) Before(ctx context.Context, name string) (string, error) {
	listed, err := c.git(ctx, "ls-tree", "--name-only", c.commit, "--", name)
	if err != nil || listed == "" {
		return "", err
	}
	return c.git(ctx, "show", c.commit+":"+name)
}

// Any reports whether wanted is true for the name of a file that differs. Names are slash-separated and relative to the
// root.
func (c *Changes) Any(wanted func(name string) bool) bool {
	return slices.ContainsFunc(c.files, wanted)
}

// Packages returns the folders of a module in which Go files differ. They and the module's folder are slash-separated
// and relative to the root. Neither testdata nor a folder that has no Go files left counts as a package.
func (c *Changes) Packages(module string) (folders []string) {
	for _, name := range c.files {
		dir := path.Dir(name)
		if path.Ext(name) != ".go" || c.module(dir) != module ||
			strings.Contains(name, "/testdata/") || slices.Contains(folders, dir) {
			continue
		}
		if left, _ := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(dir), "*.go")); len(left) > 0 {
			folders = append(folders, dir)
		}
	}
	return folders
}

// module returns the folder of the module to which a folder belongs: the nearest one with a go.mod.
func (c *Changes) module(dir string) string {
	for ; dir != "."; dir = path.Dir(dir) {
		if found, _ := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(dir), "go.mod")); len(found) > 0 {
			break
		}
	}
	return dir
}

// Touch reports whether a file of one of the packages differs, tests, documentation and comments aside. Packages are
// named by their folders. A file in a folder without Go code, such as an embedded one, belongs to the nearest package
// above it.
func (c *Changes) Touch(ctx context.Context, packages ...string) bool {
	return c.Any(func(name string) bool {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".md") || strings.Contains(name, "/testdata/") {
			return false
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if slices.Contains(packages, dir) {
				return !c.SameCode(ctx, name)
			}
			if code, _ := filepath.Glob(filepath.Join(c.root, filepath.FromSlash(dir), "*.go")); len(code) > 0 {
				return false
			}
		}
		return false
	})
}

// Imports returns, for each of some packages of a module, the folders of the repository's packages that the package and
// its tests import. The package itself is among them. Folders are slash-separated and relative to the root. The import
// path of a package is the prefix followed by its folder.
func (c *Changes) Imports(ctx context.Context, prefix, module string, packages []string) (map[string][]string, error) {
	args := append([]string{
		"list", "-mod=readonly", "-test", "-f", `{{.ForTest}} {{.ImportPath}} {{join .Deps " "}}`,
	}, packages...)
	out, err := c.runner.Run(ctx, filepath.Join(c.root, module), nil, "go", args...)
	if err != nil {
		return nil, fmt.Errorf("listing the imports of %s: %w", strings.Join(packages, ", "), err)
	}
	imports := map[string][]string{}
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		var folders []string
		for word := range strings.FieldsSeq(line) {
			folder, ours := strings.CutPrefix(word, prefix)
			if ours && !strings.HasSuffix(folder, "_test") &&
				!strings.HasSuffix(folder, ".test") && !strings.HasSuffix(folder, ".test]") {
				folders = append(folders, folder)
			}
		}
		if len(folders) > 0 { // the first folder is the package, or the one whose tests these are
			imports[folders[0]] = append(imports[folders[0]], folders...)
		}
	}
	for name, folders := range imports {
		slices.Sort(folders)
		imports[name] = slices.Compact(folders)
	}
	return imports, nil
}

func (c *Changes) git(ctx context.Context, args ...string) (string, error) {
	return c.runner.Run(ctx, c.root, nil, "git", args...)
}
