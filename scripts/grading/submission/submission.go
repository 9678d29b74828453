// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"cmp"
	"errors"
	"fmt"
	"go/build"
	"go/version"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"lva.io/operators/scripts/grading/limited"
)

// Submission is a module of kubebuilder's layout.
type Submission struct {
	// Dir is the absolute path of its folder.
	Dir string
	// Module is the module's path, Go the language version that it asks for, and ControllerRuntime the version of
	// controller-runtime that it requires.
	Module, Go, ControllerRuntime string
	// Main is the package of its program, as seen from Dir: "./" or "./cmd".
	Main string

	sources sources
}

// Open finds the module and its program in a folder. main names the package of the program, such as "./cmd/manager". If
// it is empty, Open looks for the package where kubebuilder puts it, and in the folders of cmd. The errors are for the
// person who named the folder.
func Open(dir, main string) (*Submission, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder: name the folder that holds the submission's go.mod", dir)
	}
	s := &Submission{Dir: dir}
	content, err := s.ReadFile("go.mod")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no go.mod: name the folder of a Go module of kubebuilder's layout", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("the submission's go.mod can't be read: %w", err)
	}
	mod, err := modfile.ParseLax("go.mod", content, nil)
	if err != nil {
		return nil, fmt.Errorf("the submission's go.mod can't be read: %w", err)
	}
	if mod.Module == nil {
		return nil, errors.New("the submission's go.mod names no module: its first line must be `module NAME`")
	}
	s.Module = mod.Module.Mod.Path
	if mod.Go != nil {
		s.Go = mod.Go.Version
	}
	for _, required := range mod.Require {
		if required.Mod.Path == "sigs.k8s.io/controller-runtime" {
			s.ControllerRuntime = required.Mod.Version
		}
	}
	if s.sources, err = s.survey(); err != nil {
		return nil, err
	}
	if s.Main, err = s.findMain(main); err != nil {
		return nil, err
	}
	return s, nil
}

// Notices returns facts about the module that explain unexpected behaviour.
func (s *Submission) Notices() []string {
	// Without a go line, the version is Go 1.16. (https://go.dev/ref/mod#go-mod-file-go,
	// https://go.dev/blog/loopvar-preview)
	if version.Compare("go"+cmp.Or(s.Go, "1.16"), "go1.22") >= 0 {
		return nil
	}
	return []string{fmt.Sprintf("its go.mod says go %s: before 1.22 all rounds of a loop share one variable, "+
		"so that a pointer to it (&item) points to the last item in the end; "+
		"`go mod tidy -go=1.22` in its folder changes that", cmp.Or(s.Go, "1.16 (it has no go line)"))}
}

// findMain finds the program: kubebuilder v4 has it in cmd/, older ones in the module's root, and old versions of
// operator-sdk in cmd/manager/.
func (s *Submission) findMain(named string) (string, error) {
	if named != "" {
		folder := path.Clean(filepath.ToSlash(named))
		if is, err := s.isMain(folder); err != nil {
			return "", fmt.Errorf("the program in %s can't be read: %w", named, err)
		} else if !is {
			return "", fmt.Errorf("there is no package main in %s: "+
				"name the folder of the operator's main, as seen from the submission's folder, as in `--main ./cmd/manager`", named)
		}
		return inModule(folder), nil
	}
	var mistakes []string
	for _, candidates := range [][]string{{"cmd"}, {"."}, s.below("cmd")} {
		var found []string
		for _, folder := range candidates {
			is, err := s.isMain(folder)
			if err != nil {
				mistakes = append(mistakes, err.Error())
			}
			if is {
				found = append(found, inModule(folder))
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return "", fmt.Errorf("there are several programs (%s): say which one is the operator, as in `--main %s`",
				strings.Join(found, ", "), s.likeliest(found))
		}
	}
	if len(mistakes) > 0 {
		return "", fmt.Errorf("the program can't be read: %s", strings.Join(mistakes, "; "))
	}
	text := []string{"there is no program: package main must be in cmd/ or in the module's root, " +
		"as kubebuilder lays it out; " +
		"if it is elsewhere, name its folder, as in `--main ./cmd/manager`"}
	for _, file := range s.excluded() {
		text = append(text, fmt.Sprintf("%s: %s", file.File, file.Message))
	}
	return "", errors.New(strings.Join(text, "; "))
}

// likeliest returns the first of several programs that imports a client of Kubernetes. If none does, it returns the
// first program.
func (s *Submission) likeliest(programs []string) string {
	i := slices.IndexFunc(programs, func(program string) bool {
		pkg, err := s.imported(path.Clean(program))
		return err == nil && slices.ContainsFunc(pkg.Imports, func(imported string) bool {
			return strings.HasPrefix(imported, "sigs.k8s.io/controller-runtime") ||
				strings.HasPrefix(imported, "k8s.io/client-go")
		})
	})
	return programs[max(i, 0)]
}

// inModule returns a package in the form that the go command expects.
func inModule(folder string) string { return "./" + strings.TrimPrefix(folder, ".") }

// below returns the folders of packages below a folder.
func (s *Submission) below(parent string) (folders []string) {
	for _, folder := range s.sources.folders() {
		if strings.HasPrefix(folder, parent+"/") {
			folders = append(folders, folder)
		}
	}
	return folders
}

// isMain reports whether a folder holds a program. It reads no more than package clauses and imports, so a file with an
// error in a function still counts.
func (s *Submission) isMain(folder string) (bool, error) {
	pkg, err := s.imported(folder)
	if _, ok := errors.AsType[*build.NoGoError](err); ok {
		return false, nil
	}
	return err == nil && pkg.Name == "main", err
}

// imported returns the package in a folder, as the go command finds it.
func (s *Submission) imported(folder string) (*build.Package, error) {
	if _, ok := s.sources[folder]; !ok {
		return nil, &build.NoGoError{Dir: folder}
	}
	context := s.buildContext()
	return context.ImportDir(filepath.Join(s.Dir, filepath.FromSlash(folder)), 0)
}

// buildContext returns the context of the grader's builds. It reads the submission's files with the same limits as the
// rest of the package.
func (s *Submission) buildContext() build.Context {
	context := build.Default
	context.CgoEnabled = false
	context.OpenFile = func(file string) (io.ReadCloser, error) {
		name, err := filepath.Rel(s.Dir, file)
		if err != nil {
			return nil, err
		}
		return limited.Open(s.Dir, filepath.ToSlash(name), sourceLimit)
	}
	return context
}
