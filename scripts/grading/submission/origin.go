// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/google/renameio/v2"
	"golang.org/x/mod/modfile"
)

// generatedKept is the maximum number of cached manifests, one for each state of a submission's types and markers.
const generatedKept = 16

// Origin returns a digest of everything in the submission that controller-gen reads: its types, its markers, and its
// requirements. It does not cover the bodies of functions, so most edits do not change it. It is empty if
// controller-gen also reads files outside the submission's packages: with a local module in a replace directive, or a
// folder vendor.
func (s *Submission) Origin() (string, error) {
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := s.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
		if name == "go.mod" && hasLocal(content) {
			return "", nil
		}
	}
	// Whatever the file contains, the go command uses it.
	if _, err := s.ReadFile("vendor/modules.txt"); !errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, folder := range s.sources.folders() {
		for _, name := range s.sources[folder] {
			content, err := s.ReadFile(name)
			if err != nil {
				return "", err
			}
			declared := declarations(content)
			fmt.Fprintf(sum, "%s %d\n%s", name, len(declared), declared)
		}
	}
	return hexadecimal(sum), nil
}

func hexadecimal(sum hash.Hash) string { return fmt.Sprintf("%x", sum.Sum(nil)) }

// hasLocal reports whether a go.mod replaces a module by a folder.
func hasLocal(content []byte) bool {
	mod, err := modfile.Parse("go.mod", content, nil)
	return err != nil || slices.ContainsFunc(mod.Replace, func(r *modfile.Replace) bool { return r.New.Version == "" })
}

// markerComment matches a comment that controller-gen may read.
var markerComment = regexp.MustCompile(`^//\s*\+`)

// declarations returns a Go file without the bodies of its functions, except for the markers in them. A file that can't
// be parsed is returned unchanged.
func declarations(content []byte) (kept []byte) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return content
	}
	offset := func(at token.Pos) int { return set.Position(at).Offset }
	from := 0
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		kept = append(kept, content[from:offset(function.Body.Lbrace)+1]...)
		for _, group := range file.Comments {
			if group.Pos() < function.Body.Lbrace || group.Pos() > function.Body.Rbrace {
				continue
			}
			for _, comment := range group.List {
				if markerComment.MatchString(comment.Text) {
					kept = append(kept, comment.Text+"\n"...)
				}
			}
		}
		from = offset(function.Body.Rbrace)
	}
	return append(kept, content[from:]...)
}

// keptManifests returns the name of the file that caches controller-gen's output for the submission with these
// arguments. It is empty if there is no such file.
func (b *Builder) keptManifests(args []string) string {
	if b.Generated == "" {
		return ""
	}
	origin, err := b.Origin()
	program, statErr := os.Stat(b.ControllerGen)
	if err != nil || statErr != nil || origin == "" {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %q %d %s", origin, args, program.Size(), program.ModTime())
	return filepath.Join(b.Generated, "manifests-"+hexadecimal(sum)[:32]+".yaml")
}

// keepManifests writes such a file, and removes the oldest ones.
func keepManifests(file string, content []byte) error {
	if file == "" {
		return nil
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), renameio.WriteFile(file, content, 0o644)); err != nil {
		return fmt.Errorf("caching the manifests: %w", err)
	}
	all, err := filepath.Glob(filepath.Join(filepath.Dir(file), "manifests-*.yaml"))
	if err != nil || len(all) <= generatedKept {
		return err
	}
	written := func(file string) int64 {
		info, err := os.Stat(file)
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	slices.SortFunc(all, func(a, b string) int { return int(written(a) - written(b)) })
	for _, old := range all[:len(all)-generatedKept] {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing old manifests: %w", err)
		}
	}
	return nil
}
