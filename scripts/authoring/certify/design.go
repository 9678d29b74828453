// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/authoring/mutant"
)

// designsDir holds the correct designs, one archive each, relative to the root of the repository.
const designsDir = "scripts/authoring/certify/testdata/designs"

// design is a correct operator that is built in a different way than the solution, so it must get full marks. It is
// laid over a copy of the solution.
type design struct {
	// Labs names the labs whose graders it is tried on. Design describes the difference in one sentence.
	Labs   []string `json:"labs"`
	Design string   `json:"design"`
	// Torture reports whether it must survive the torture, too. A torture takes about as long as ten grades.
	Torture bool `json:"torture,omitempty"`
	// Base reports that the design lacks the lab's extension.
	Base bool `json:"base,omitempty"`
	// Replaces lists the files and folders of the solution that the design removes. Edits lists the changes to files that
	// it keeps.
	Replaces []string      `json:"replaces,omitempty"`
	Edits    []mutant.Edit `json:"edits,omitempty"`

	name  string
	files []txtar.File
}

// designs returns all correct designs for a lab.
func designs(root, lab string) (all []design, err error) {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(designsDir), "*.txtar"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a design: %w", err)
		}
		d := design{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), files: archive.Files}
		if err := yaml.UnmarshalStrict(archive.Comment, &d); err != nil {
			return nil, fmt.Errorf("reading the head of %s: %w", file, err)
		}
		if len(d.Labs) == 0 || d.Design == "" || len(d.Edits)+len(d.files) == 0 {
			return nil, fmt.Errorf("%s: a design needs labs, a sentence about its design, and edits or files", file)
		}
		if slices.Contains(d.Labs, lab) {
			all = append(all, d)
		}
	}
	return all, nil
}

// apply lays the design over the copy of the solution in a folder.
func (d *design) apply(dir string) error {
	for _, folder := range d.Replaces {
		path := filepath.Join(dir, filepath.FromSlash(folder))
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("the design %s replaces what is not there: %w", d.name, err)
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := (&mutant.Mutant{Name: d.name, Edits: d.Edits}).Apply(dir); err != nil {
		return err
	}
	for _, file := range d.files {
		path := filepath.Join(dir, filepath.FromSlash(file.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Data, 0o644)); err != nil {
			return fmt.Errorf("applying the design %s: %w", d.name, err)
		}
	}
	return nil
}
