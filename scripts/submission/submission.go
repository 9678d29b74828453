// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"errors"
	"fmt"
	"go/build"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// Submission is a module of kubebuilder's layout.
type Submission struct {
	// Dir is its folder, absolute.
	Dir string
	// Module is its path, Go the language version that it asks for, ControllerRuntime the version that it requires.
	Module, Go, ControllerRuntime string
	// Main is the package of its program, as seen from Dir: "./" or "./cmd".
	Main string
}

// Open finds out what is in a folder. Its errors are for whoever named the folder.
func Open(dir string) (*Submission, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder: name the folder that holds the submission's go.mod", dir)
	}
	content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s has no go.mod: name the folder of a Go module of kubebuilder's layout", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the submission's go.mod: %w", err)
	}
	mod, err := modfile.ParseLax("go.mod", content, nil)
	if err != nil {
		return nil, fmt.Errorf("the submission's go.mod can't be read: %w", err)
	}
	if mod.Module == nil {
		return nil, errors.New("the submission's go.mod names no module: its first line must be `module NAME`")
	}
	s := &Submission{Dir: dir, Module: mod.Module.Mod.Path}
	if mod.Go != nil {
		s.Go = mod.Go.Version
	}
	for _, required := range mod.Require {
		if required.Mod.Path == "sigs.k8s.io/controller-runtime" {
			s.ControllerRuntime = required.Mod.Version
		}
	}
	if s.Main, err = findMain(dir); err != nil {
		return nil, err
	}
	return s, nil
}

// findMain finds the program: kubebuilder v4 has it in cmd/, older ones in the module's root.
func findMain(dir string) (string, error) {
	var mistakes []string
	for _, candidate := range []string{"cmd", "."} {
		// ImportDir reads no more than package clauses and imports, so a file with an error in a function still counts.
		pkg, err := build.Default.ImportDir(filepath.Join(dir, candidate), 0)
		if err == nil && pkg.Name == "main" {
			return "./" + strings.TrimSuffix(candidate, "."), nil
		}
		var none *build.NoGoError
		if err != nil && !errors.As(err, &none) && !errors.Is(err, os.ErrNotExist) {
			if _, statErr := os.Stat(filepath.Join(dir, candidate)); statErr == nil {
				mistakes = append(mistakes, err.Error())
			}
		}
	}
	if len(mistakes) > 0 {
		return "", fmt.Errorf("the program can't be read: %s", strings.Join(mistakes, "; "))
	}
	return "", errors.New("there is no program: package main must be in cmd/ or in the module's root, as kubebuilder lays it out")
}
