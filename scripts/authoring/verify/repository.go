// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"lva.io/operators/scripts/authoring/clientgen"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/checkout/changes"
	"lva.io/operators/scripts/checkout/command"
)

// Repository has what a check needs: the tree, and access to programs.
type Repository struct {
	// Root is its folder.
	Root string
	// Runner runs programs. Its folder is for temporary files.
	Runner *command.Runner
	// Progress reports the progress of the check. detail names the units ("modules").
	Progress func(detail string, done, total int)

	controllerGen string
	golangciLint  string
	clients       clientgen.Generator
	since         *changes.Changes
}

// module is a Go module of the repository.
type module struct {
	dir  string // from the root, with slashes
	file *modfile.File
}

// modules finds all Go modules of the repository. There is no list of them.
func (r *Repository) modules() ([]module, error) {
	var found []module
	err := filepath.WalkDir(r.Root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch base := entry.Name(); {
			case name == r.Root:
				return nil
			case base == "testdata", base == "bin", base == "out", base == "node_modules", strings.HasPrefix(base, "."):
				return filepath.SkipDir
			}
			return nil
		}
		if entry.Name() != "go.mod" {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := modfile.Parse(name, content, nil)
		if err != nil {
			return fmt.Errorf("reading a go.mod: %w", err)
		}
		dir, err := filepath.Rel(r.Root, filepath.Dir(name))
		found = append(found, module{dir: filepath.ToSlash(dir), file: file})
		return err
	})
	return found, err
}

// isLab reports whether a path from the root belongs to a lab. Such a file is fixed in the lab's solution.
func isLab(name string) bool { return strings.HasPrefix(name, "labs/") }

// solutions lists the names of the labs that have a solution.
func (r *Repository) solutions() ([]string, error) {
	entries, err := filepath.Glob(filepath.Join(r.Root, "solutions", "*", "go.mod"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, filepath.Base(filepath.Dir(entry)))
	}
	return names, nil
}

// files lists the files of the repository that are in git or would be with the next `git add`, from the root with
// slashes.
func (r *Repository) files(ctx context.Context) ([]string, error) {
	out, err := r.Runner.Run(ctx, r.Root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, fmt.Errorf("asking git for the files of the repository: %w", err)
	}
	var files []string
	for name := range strings.SplitSeq(out, "\x00") {
		if name == "" {
			continue
		}
		// Git lists a deleted file until the deletion is committed.
		if info, err := os.Lstat(r.path(name)); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// path turns a path from the root into one that can be opened.
func (r *Repository) path(name string) string { return filepath.Join(r.Root, filepath.FromSlash(name)) }

func (r *Repository) generator() skeleton.Generator {
	return skeleton.Generator{Root: r.Root, ControllerGen: r.controllerGen}
}

// replace overwrites a file of the tree, and keeps its permissions.
func (r *Repository) replace(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(r.path(name), content, 0o644)
}

// stale returns the finding that a file is not up to date. Nil contents stand for a missing file.
func (r *Repository) stale(ctx context.Context, name string, have, want []byte, origin string) (Finding, error) {
	switch {
	case have == nil:
		return Finding{Location: name, Message: "is missing: " + origin}, nil
	case want == nil:
		return Finding{Location: name, Message: "should not be there: " + origin}, nil
	}
	diff, err := r.diff(ctx, have, want)
	return Finding{Location: name, Message: "is stale: " + origin, Detail: diff}, err
}

// diff returns the changes from the current to the expected content of a file.
func (r *Repository) diff(ctx context.Context, have, want []byte) (string, error) {
	dir, err := os.MkdirTemp(r.Runner.Dir(), "diff-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for name, content := range map[string][]byte{"have": have, "want": want} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return "", err
		}
	}
	_, err = r.Runner.Run(ctx, dir, nil,
		"git", "diff", "--no-index", "--no-color", "--no-ext-diff", "--unified=2", "have", "want")
	output, failed := command.Output(err)
	if err != nil && !failed {
		return "", err
	}
	// The lines before the first @@ name our temporary files.
	if i := strings.Index(output, "@@"); i >= 0 {
		output = output[i:]
	}
	return output, nil
}

// copyTo copies files of the tree, given by their paths from dir, to another folder.
func copyTo(target, dir string, names []string) error {
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		to := filepath.Join(target, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// filesIn lists the files of the repository below a folder, by their paths from it.
func (r *Repository) filesIn(ctx context.Context, dir string) ([]string, error) {
	all, err := r.files(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range all {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			names = append(names, rest)
		}
	}
	return names, nil
}

// read reads a file of the tree. It returns nil for a missing file.
func (r *Repository) read(name string) ([]byte, error) {
	content, err := os.ReadFile(r.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if content == nil {
		content = []byte{}
	}
	return content, err
}

// isGeneratedGo reports whether a Go file is marked as generated.
func isGeneratedGo(content []byte) bool {
	file, err := parser.ParseFile(token.NewFileSet(), "", content, parser.PackageClauseOnly|parser.ParseComments)
	return err == nil && ast.IsGenerated(file)
}

// isTestdata reports whether a file is input for a test. Such a file may have any content.
func isTestdata(name string) bool {
	return slices.Contains(strings.Split(path.Dir(name), "/"), "testdata")
}
