// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"lva.io/operators/scripts/checkout/changes"
	"lva.io/operators/scripts/checkout/command"
)

// Inputs are everything that decides the result of a part, besides the version of Go. Folders and files are named from
// the root of the checkout, with slashes. The code of a Go file counts, but not its comments (changes.Code).
type Inputs struct {
	// All includes every file of the checkout, with all comments. Files that the proof itself writes never count.
	All bool
	// Files are single files, and folders with their whole content.
	Files []string
	// Packages are folders of Go packages. Everything in them counts, and so does the code that is compiled from our
	// packages that they and their tests import, with the go.mod and go.sum of their modules.
	Packages []string
	// Values are texts, such as the entry of one lab in a list of all labs.
	Values []string
}

// prefix is the beginning of our packages' import paths. A folder follows it.
const prefix = "lva.io/operators/"

// Tree is the content of a checkout's files at one moment.
type Tree struct {
	root    string
	digests map[string]string   // by file
	codes   map[string]string   // by Go file, without comments
	folders map[string][]string // the files right below a folder
	hasCode map[string]bool     // folders with Go files
	imports map[string][]string // our packages that a Go file imports, as folders; filled on demand
}

// errNoClone reports that git can't list the files of a checkout, because git is not installed, or because the checkout
// is not in a clone.
var errNoClone = errors.New("it must be a clone, and git must be on PATH")

// ReadTree reads the files of a checkout that git tracks, and those that it neither tracks nor ignores, because they
// may be in the next commit. The error is errNoClone if git does not know the checkout.
func ReadTree(ctx context.Context, runner *command.Runner, root string) (*Tree, error) {
	listed, err := runner.Run(ctx, root, nil, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	if err != nil {
		if _, gitRan := command.Output(err); errors.Is(err, exec.ErrNotFound) || gitRan && !inClone(root) {
			err = fmt.Errorf("%w: %w", errNoClone, err)
		}
		return nil, fmt.Errorf("asking git which files the checkout has: %w", err)
	}
	t := &Tree{
		root: root, digests: map[string]string{}, folders: map[string][]string{},
		codes: map[string]string{}, hasCode: map[string]bool{}, imports: map[string][]string{},
	}
	for name := range strings.SplitSeq(listed, "\x00") {
		if name == "" || name == Page || name == Records {
			continue
		}
		digest, code, err := t.digest(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the file is deleted, and the deletion is not committed
		}
		if err != nil {
			return nil, fmt.Errorf("reading what decides the proof: %w", err)
		}
		t.codes[name] = code
		t.digests[name] = digest
		t.folders[path.Dir(name)] = append(t.folders[path.Dir(name)], name)
		if path.Ext(name) == ".go" {
			t.hasCode[path.Dir(name)] = true
		}
	}
	return t, nil
}

// inClone reports whether a folder is in a clone: it, or a folder above it, has a .git, where git looks for one.
func inClone(dir string) bool {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
		dir = filepath.Dir(dir)
	}
}

// digest returns digests of a file and of its code. Comments of Go files do not change the latter.
func (t *Tree) digest(name string) (digest, code string, err error) {
	file := filepath.Join(t.root, filepath.FromSlash(name))
	info, err := os.Lstat(file)
	if err != nil {
		return "", "", err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(file)
		return "link " + target, "link " + target, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	describe := func(content []byte) string {
		return fmt.Sprintf("%t %x", info.Mode()&0o111 != 0, sha256.Sum256(content))
	}
	digest = describe(content)
	if path.Ext(name) != ".go" {
		return digest, digest, nil
	}
	return digest, describe(changes.Code(content)), nil
}

// Hash returns a hash of all inputs as they are in the tree. A missing file or package is an error. Otherwise a part
// would silently depend on nothing.
func (t *Tree) Hash(in Inputs) (string, error) {
	chosen := map[string]bool{}
	for _, wanted := range in.Files {
		found := false
		for name := range t.digests {
			if name == wanted || strings.HasPrefix(name, wanted+"/") {
				chosen[name], found = true, true
			}
		}
		if !found {
			return "", fmt.Errorf("the proof depends on %s, which is not in the checkout", wanted)
		}
	}
	if err := t.addPackages(chosen, in.Packages); err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %q\n", runtime.Version(), in.Values)
	var names []string
	for name := range t.digests {
		if in.All || chosen[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		digest := t.codes[name]
		if in.All {
			digest = t.digests[name]
		}
		fmt.Fprintf(sum, "%q %s\n", name, digest)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// addPackages adds the files of packages, and those of all packages that they import.
func (t *Tree) addPackages(chosen map[string]bool, packages []string) error {
	seen := map[string]bool{}
	var waiting []string
	visit := func(folder string, own bool) error {
		for _, name := range t.filesOf(folder) {
			if !own && !compiled(name) {
				continue
			}
			chosen[name] = true
			imports, err := t.importsOf(name)
			if err != nil {
				return err
			}
			waiting = append(waiting, imports...)
		}
		for dir := folder; dir != "."; dir = path.Dir(dir) {
			if _, ok := t.digests[dir+"/go.mod"]; ok {
				chosen[dir+"/go.mod"], chosen[dir+"/go.sum"] = true, true
				break
			}
		}
		return nil
	}
	for _, folder := range packages {
		if !t.hasCode[folder] {
			return fmt.Errorf("the proof depends on the package %s, which is not in the checkout", folder)
		}
		seen[folder] = true
		if err := visit(folder, true); err != nil {
			return err
		}
	}
	for len(waiting) > 0 {
		folder := waiting[0]
		waiting = waiting[1:]
		if seen[folder] {
			continue
		}
		seen[folder] = true
		if err := visit(folder, false); err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns the files of a package: those in its folder, and those in folders below it that are no packages, such
// as embedded files and input of tests.
func (t *Tree) filesOf(folder string) (all []string) {
	for dir, files := range t.folders {
		for parent := dir; ; parent = path.Dir(parent) {
			if parent == folder {
				all = append(all, files...)
			}
			if parent == folder || parent == "." || t.hasCode[parent] && !strings.Contains(parent, "/testdata") {
				break
			}
		}
	}
	return all
}

// compiled reports whether a file of a package may be part of a program that imports it.
func compiled(name string) bool {
	return !strings.HasSuffix(name, "_test.go") && path.Ext(name) != ".md" && !strings.Contains(name, "/testdata/")
}

// importsOf returns the folders of our packages that a Go file imports, for any system.
func (t *Tree) importsOf(name string) ([]string, error) {
	if imports, known := t.imports[name]; known || path.Ext(name) != ".go" || strings.Contains(name, "/testdata/") {
		return imports, nil
	}
	file, err := parser.ParseFile(token.NewFileSet(),
		filepath.Join(t.root, filepath.FromSlash(name)), nil, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("reading what %s imports: %w", name, err)
	}
	imports := []string{}
	for _, spec := range file.Imports {
		quoted, err := strconv.Unquote(spec.Path.Value)
		if folder, internal := strings.CutPrefix(quoted, prefix); err == nil && internal {
			imports = append(imports, folder)
		}
	}
	t.imports[name] = imports
	return imports, nil
}
