// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lva.io/operators/clusters/debian"
	"lva.io/operators/clusters/gobuild"
)

// programSource is everything that determines the bytes of a program.
type programSource struct {
	Program Program
	Files   string // a digest
	Go      string
	System  string
}

func (s *Store) programSource(p Program) (programSource, error) {
	files, err := digestOf(filepath.Join(s.Programs, p.Module), func(name string, entry fs.DirEntry) bool {
		if entry.IsDir() {
			return !strings.HasPrefix(entry.Name(), ".") && entry.Name() != "testdata" && p.affectsProgram(name)
		}
		switch {
		case strings.HasSuffix(name, "_test.go"),
			path.Dir(name) == "." && len(p.Sources) > 0 && strings.HasSuffix(name, ".go"):
			return false
		}
		return strings.HasSuffix(name, ".go") || entry.Name() == "go.mod" || entry.Name() == "go.sum"
	})
	if err != nil {
		return programSource{}, fmt.Errorf("reading the sources of a program: %w", err)
	}
	return programSource{
		Program: p, Files: files, Go: s.goVersion(), System: "linux/" + runtime.GOARCH,
	}, nil
}

// affectsProgram reports whether files of a folder of the module, or of one below it, affect the program.
func (p Program) affectsProgram(folder string) bool {
	if len(p.Sources) == 0 {
		return true
	}
	folder = filepath.ToSlash(folder)
	return slices.ContainsFunc(p.Sources, func(source string) bool {
		return folder == source || strings.HasPrefix(folder, source+"/") || strings.HasPrefix(source, folder+"/")
	})
}

// goVersionFile is the file of a store that came in a bundle, with the version of Go that its programs were built with.
const goVersionFile = "go"

// goVersion is the version of Go with which the store's programs are built: that of this program, which was built by
// the Go that is here. A store that came in a bundle keeps the bundle's version. Otherwise, a Go that is a little newer
// would rebuild everything, on a machine that can't.
func (s *Store) goVersion() string {
	content, err := os.ReadFile(filepath.Join(s.Dir, goVersionFile))
	if err != nil || len(bytes.TrimSpace(content)) == 0 {
		return runtime.Version()
	}
	return string(bytes.TrimSpace(content))
}

// target returns the build target of a program.
func (s *Store) target(c *Catalogue, name string) (gobuild.Target, error) {
	p := c.Programs[name]
	t := gobuild.Target{
		Package: p.Package, Module: filepath.Join(s.Programs, p.Module), Tags: p.Tags, C: p.C,
		Output: filepath.Join(s.Dir, "programs", name),
	}
	if t.Package == "" {
		t.Package = "."
	}
	if p.Output != "" {
		t.Output = filepath.Join(s.Dir, p.Output)
	}
	var words []string
	if p.VersionOf != "" {
		version, err := gobuild.Required(t.Module, p.VersionOf)
		if err != nil {
			return t, err
		}
		number := strings.TrimPrefix(version, "v")
		parts := append(strings.SplitN(number, ".", 3), "", "")
		words = []string{"$VERSION", version, "$NUMBER", number, "$MAJOR", parts[0], "$MINOR", parts[1]}
	}
	fill := strings.NewReplacer(words...)
	for _, variable := range p.Variables {
		t.LinkFlags = append(t.LinkFlags, "-X", fill.Replace(variable))
	}
	if p.C {
		t.LinkFlags = append(t.LinkFlags, "-extldflags", "-static")
	}
	return t, nil
}

// ensureProgram builds a program unless it exists, and returns its file.
func (s *Store) ensureProgram(ctx context.Context, c *Catalogue, name string, progress Progress) (string, error) {
	target, err := s.target(c, name)
	if err != nil {
		return "", err
	}
	if target.Fresh() {
		return target.Output, nil
	}
	if p := c.Programs[name]; p.C {
		proofs := map[string]string{}
		for _, pkg := range p.CPackages {
			proofs[pkg] = filepath.Join("/var/lib/dpkg/info", pkg+".list")
			if found, _ := filepath.Glob(filepath.Join("/var/lib/dpkg/info", pkg+":*.list")); len(found) > 0 {
				proofs[pkg] = found[0]
			}
		}
		if err := debian.Need(ctx, proofs); err != nil {
			return "", err
		}
	}
	started := time.Now()
	what := "program " + name
	err = target.Ensure(ctx, func(_ string, done, total int) { progress.report(what, int64(done), int64(total)) })
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(target.Output); err == nil {
		s.made(what, started, info.Size())
	}
	return target.Output, nil
}

// moduleFolder downloads a module unless it exists, and returns its folder.
func (s *Store) moduleFolder(ctx context.Context, m Module) (folder, version string, err error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", m.Path)
	command.Dir = filepath.Join(s.Programs, m.RequiredBy)
	command.Env = gobuild.Environment()
	command.WaitDelay = 10 * time.Second
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	var answer struct{ Dir, Version, Error string }
	if json.Unmarshal(out, &answer) == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		return "", "", fmt.Errorf("downloading the module %s: %w\n%s", m.Path, err, bytes.TrimSpace(problems.Bytes()))
	}
	return answer.Dir, answer.Version, nil
}

// ModuleFile reads a file of a module of the catalogue, which it downloads if need be. from is slash-separated.
func (s *Store) ModuleFile(ctx context.Context, module, from string) ([]byte, error) {
	c, err := Load()
	if err != nil {
		return nil, err
	}
	source, found := c.Modules[module]
	if !found {
		return nil, fmt.Errorf("clusters/images/catalogue.yaml has no module %s", module)
	}
	folder, _, err := s.moduleFolder(ctx, source)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(from)))
	if err != nil {
		return nil, fmt.Errorf("reading %s of the module %s: %w", from, source.Path, err)
	}
	return content, nil
}

// File reads a file that the catalogue puts into an image. If the store has the image, File reads the file there, which
// needs neither Go nor a network. Otherwise it reads it from its module, which it downloads if need be. The name begins
// with a slash.
func (s *Store) File(ctx context.Context, reference, name string) ([]byte, error) {
	c, err := Load()
	if err != nil {
		return nil, err
	}
	return s.fileOf(ctx, c, reference, name)
}

func (s *Store) fileOf(ctx context.Context, c *Catalogue, reference, name string) ([]byte, error) {
	image, err := c.Image(reference)
	if err != nil {
		return nil, err
	}
	key, err := s.imageKey(image)
	if err != nil {
		return nil, err
	}
	var built content
	found := s.readRecord("images", key, &built) && s.complete(built)
	for i, layer := range image.Layers {
		for _, file := range c.named(layer).Files {
			switch {
			case file.To != name:
			case found:
				return s.fromLayer(built.Layers[i], name)
			case file.Module != "":
				return s.ModuleFile(ctx, file.Module, file.From)
			}
		}
	}
	return nil, fmt.Errorf("the catalogue puts no file %s into the image %s, or the image was not made", name, reference)
}

// ModuleVersion returns the version of a module of the catalogue.
func (s *Store) ModuleVersion(module string) (string, error) {
	c, err := Load()
	if err != nil {
		return "", err
	}
	source, found := c.Modules[module]
	if !found {
		return "", fmt.Errorf("clusters/images/catalogue.yaml has no module %s", module)
	}
	return gobuild.Required(s.path(source.RequiredBy), source.Path)
}

// checkout is the root of the checkout that the store belongs to.
func (s *Store) checkout() string { return filepath.Join(s.Programs, "..", "..", "..") }

// written returns the file or folder of the checkout that a command writes.
func (s *Store) written(file File) string {
	return filepath.Join(s.checkout(), filepath.FromSlash(file.From))
}

// digestOf returns a digest of the names and contents of a file, or of the files in a folder for which counts returns
// true. It skips a folder for which counts returns false. Names are slash-separated, from the root.
func digestOf(root string, counts func(name string, entry fs.DirEntry) bool) (string, error) {
	root, err := filepath.EvalSymlinks(root) // WalkDir does not enter a root that is a link
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case file != root && !counts(name, entry):
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintln(digest, name, len(content))
		digest.Write(content)
		return nil
	})
	return hex.EncodeToString(digest.Sum(nil)), err
}

// addFiles adds a file or folder of a module, or of the checkout, to a layer.
func (t tree) addFiles(folder string, file File, mode fs.FileMode) error {
	from := filepath.Join(folder, file.From)
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if file.Constant != "" {
			text, err := constant(from, content, file.Constant)
			if err != nil {
				return err
			}
			content = []byte(text)
		}
		if content, err = edited(content, file.Replace); err != nil {
			return fmt.Errorf("%s: %w", file.From, err)
		}
		return t.add(file.To, entry{mode: mode, content: content})
	}
	return filepath.WalkDir(from, func(name string, found fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if matches(file.Without, relative) {
			if found.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if found.IsDir() {
			return nil
		}
		return t.add(file.To+"/"+relative, entry{mode: mode, source: name})
	})
}

func edited(content []byte, edits []Replacement) ([]byte, error) {
	for _, edit := range edits {
		if n := bytes.Count(content, []byte(edit.Find)); n != 1 {
			return nil, fmt.Errorf("%q is there %d times and should be there once: has a new version changed it?", edit.Find, n)
		}
		content = bytes.Replace(content, []byte(edit.Find), []byte(edit.With), 1)
	}
	return content, nil
}

// constant evaluates a string constant of a Go file: literals and other constants of the file, joined by +.
func constant(name string, source []byte, wanted string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	values := map[string]ast.Expr{}
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok || general.Tok != token.CONST {
			continue
		}
		for _, spec := range general.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok {
				for i := range min(len(value.Names), len(value.Values)) {
					values[value.Names[i].Name] = value.Values[i]
				}
			}
		}
	}
	var text func(ast.Expr) (string, error)
	text = func(expression ast.Expr) (string, error) {
		switch e := expression.(type) {
		case *ast.BasicLit:
			return strconv.Unquote(e.Value)
		case *ast.Ident:
			if value, found := values[e.Name]; found {
				return text(value)
			}
		case *ast.BinaryExpr:
			left, err := text(e.X)
			if err != nil {
				return "", err
			}
			right, err := text(e.Y)
			return left + right, err
		}
		return "", fmt.Errorf("%s: the constant %s is not made of strings of this file", name, wanted)
	}
	return text(&ast.Ident{Name: wanted})
}

// names returns the sorted names of a map, so that everything is built in the same order each time.
func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
