// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package skeleton

import (
	"bytes"
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
	"unicode/utf8"
)

// These are the module paths of solutions and labs, up to the lab's name.
const (
	solutionsPath = "lva.io/operators/solutions/"
	labsPath      = "lva.io/operators/labs/"
)

// file is a file of a solution or of a lab.
type file struct {
	name    string // relative to the folder, with slashes
	content []byte
	mode    fs.FileMode
}

// Regions lists the tasks of a lab (the folder's name, such as 02-reconciler) in the order of files and lines. It
// reports every mistake in the markers of the lab's solution.
func Regions(root, lab string) ([]Region, error) {
	files, err := readFolder(filepath.Join(root, "solutions", lab))
	if err != nil {
		return nil, err
	}
	_, regions, err := parseAll(lab, files)
	return regions, err
}

// parseAll parses the text files of a solution that belong to the lab.
func parseAll(lab string, files []file) (map[string]*Source, []Region, error) {
	sources := map[string]*Source{}
	var regions []Region
	var problems []error
	for _, f := range files {
		if !f.mode.IsRegular() {
			problems = append(problems, &Problem{
				File: solutionPath(lab, f.name), Line: 1,
				Message: "this is not a regular file: a lab has only regular files, so copy the target of the link",
			})
			continue
		}
		if isBinary(f) {
			if !isPicture(f.name) {
				problems = append(problems, &Problem{
					File: solutionPath(lab, f.name), Line: 1,
					Message: "this is neither text nor an image, which a lab can't have: delete it from the solution",
				})
			}
			continue
		}
		source, err := Parse(f.name, f.content)
		if err == nil {
			err = checkDocComments(source, f.content)
		}
		problems = append(problems, located(lab, err)...)
		sources[f.name] = source
		for _, region := range source.Regions {
			if i := slices.IndexFunc(regions, func(r Region) bool { return r.Name == region.Name }); i >= 0 {
				problems = append(problems, &Problem{
					File: solutionPath(lab, f.name), Line: region.Begin,
					Message: fmt.Sprintf("the region %q already exists in %s:%d: give each region of a lab its own name",
						region.Name, solutionPath(lab, regions[i].File), regions[i].Begin),
				})
			}
			regions = append(regions, region)
		}
	}
	return sources, regions, errors.Join(problems...)
}

// solutionPath returns the path of a solution's file from the repository's root, for messages.
func solutionPath(lab, name string) string { return path.Join("solutions", lab, name) }

// located adds the path from the repository's root to the problems of one file.
func located(lab string, err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range joined.Unwrap() {
			all = append(all, located(lab, one)...)
		}
		return all
	}
	if problem, ok := errors.AsType[*Problem](err); ok {
		return []error{&Problem{File: solutionPath(lab, problem.File), Line: problem.Line, Message: problem.Message}}
	}
	return []error{err}
}

// checkDocComments finds markers in the doc comment of a declaration. gofmt would move them to the end of the comment,
// and so move the border of the region.
func checkDocComments(source *Source, content []byte) error {
	if path.Ext(source.Name) != ".go" || len(source.Regions) == 0 {
		return nil
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, source.Name, content, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("reading Go: %w", err)
	}
	var problems []error
	for _, declaration := range parsed.Decls {
		var doc *ast.CommentGroup
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			doc = d.Doc
		case *ast.GenDecl:
			doc = d.Doc
		}
		if doc == nil || len(doc.List) == 1 {
			continue
		}
		for _, comment := range doc.List {
			line := files.Position(comment.Pos()).Line
			if source.roles[line-1] == marker {
				problems = append(problems, &Problem{
					File: source.Name, Line: line,
					Message: "gofmt moves a marker within a doc comment: put an empty line between the marker and the comment",
				})
			}
		}
	}
	return errors.Join(problems...)
}

// readFolder reads the files of a solution's or lab's folder, sorted by name. It leaves out build output (bin, out) and
// hidden folders. It lists symbolic links and other special files without their content.
func readFolder(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != dir && (entry.Name() == "bin" || entry.Name() == "out" || strings.HasPrefix(entry.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil || entry.Name() == ".DS_Store" {
			return err
		}
		f := file{name: filepath.ToSlash(relative), mode: entry.Type()}
		if f.mode.IsRegular() {
			info, err := entry.Info()
			if err != nil {
				return err
			}
			f.mode = info.Mode().Perm()
			if f.content, err = os.ReadFile(name); err != nil {
				return err
			}
		}
		files = append(files, f)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: is the name of the lab right? %w", dir, err)
	}
	return files, err
}

func isBinary(f file) bool { return !utf8.Valid(f.content) || bytes.IndexByte(f.content, 0) >= 0 }

func isPicture(name string) bool {
	switch path.Ext(name) {
	case ".png", ".jpg", ".gif", ".webp":
		return true
	}
	return false
}

// Generated reports whether controller-gen generates this file of a lab or solution.
func Generated(name string) bool {
	if strings.HasPrefix(path.Base(name), "zz_generated.") {
		return true
	}
	switch path.Dir(name) {
	case "config/crd/bases":
		return true
	case "config/rbac":
		return path.Base(name) == "role.yaml"
	case "config/webhook":
		return path.Base(name) == "manifests.yaml"
	}
	return false
}
