// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/authoring/mutant"
)

// root is the path of the repository's root, from this package.
const root = "../../../.."

// lab holds the real code that exists for a lab.
type lab struct {
	name               string
	skeleton, solution Document
	// designs are right operators that differ from the solution, and mutants are wrong ones.
	designs, mutants []Document
}

// corpus reads the code of all labs.
func corpus(tb testing.TB) []lab {
	tb.Helper()
	folders, err := filepath.Glob(filepath.Join(root, "solutions", "*", mutant.File))
	if err != nil || len(folders) == 0 {
		tb.Fatalf("found no solutions: %v", err)
	}
	var labs []lab
	for _, folder := range folders {
		name := filepath.Base(filepath.Dir(folder))
		l := lab{
			name: name, skeleton: folderDocument(tb, "skeleton", "labs/"+name),
			solution: folderDocument(tb, "solution", "solutions/"+name),
		}
		all := allFiles(tb, "solutions/"+name)
		list, err := mutant.Load(filepath.Dir(folder))
		if err != nil {
			tb.Fatal(err)
		}
		for _, m := range list.Mutants {
			l.mutants = append(l.mutants, Document{Name: "mutant " + m.Name, Files: edited(tb, all, m.Edits)})
		}
		l.designs = designs(tb, name, all)
		labs = append(labs, l)
	}
	return labs
}

func allFiles(tb testing.TB, dir string) map[string][]byte {
	tb.Helper()
	files := map[string][]byte{}
	folder := os.DirFS(filepath.Join(root, dir))
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		files[name], err = fs.ReadFile(folder, name)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return files
}

func folderDocument(tb testing.TB, name, dir string) Document {
	tb.Helper()
	return Document{Name: name, Files: allFiles(tb, dir)}
}

func edited(tb testing.TB, files map[string][]byte, edits []mutant.Edit) map[string][]byte {
	tb.Helper()
	files = maps.Clone(files)
	for _, edit := range edits {
		after, err := edit.Apply(files[edit.File])
		if err != nil {
			tb.Fatal(err)
		}
		files[edit.File] = after
	}
	return files
}

// designs returns the certified right designs of a lab. Package certify describes their format.
func designs(tb testing.TB, lab string, solution map[string][]byte) (all []Document) {
	tb.Helper()
	archives, err := filepath.Glob(filepath.Join(root, "scripts/authoring/certify/testdata/designs/*.txtar"))
	if err != nil || len(archives) == 0 {
		tb.Fatalf("found no designs: %v", err)
	}
	for _, file := range archives {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		var head struct {
			Labs     []string      `json:"labs"`
			Replaces []string      `json:"replaces"`
			Edits    []mutant.Edit `json:"edits"`
		}
		if err := yaml.Unmarshal(archive.Comment, &head); err != nil {
			tb.Fatal(err)
		}
		if !slices.Contains(head.Labs, lab) {
			continue
		}
		files := maps.Clone(solution)
		maps.DeleteFunc(files, func(name string, _ []byte) bool {
			return slices.ContainsFunc(head.Replaces, func(gone string) bool {
				return name == gone || strings.HasPrefix(name, gone+"/")
			})
		})
		files = edited(tb, files, head.Edits)
		for _, f := range archive.Files {
			files[f.Name] = f.Data
		}
		all = append(all, Document{Name: "design " + strings.TrimSuffix(filepath.Base(file), ".txtar"), Files: files})
	}
	return all
}

// versions returns independent work for lab 02, as students hand it in: the skeleton with its gaps filled.
func versions(tb testing.TB, skeleton Document) (all []Document) {
	tb.Helper()
	archive, err := txtar.ParseFile("testdata/versions.txtar")
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range archive.Files {
		name, file, _ := strings.Cut(f.Name, "/")
		i := slices.IndexFunc(all, func(d Document) bool { return d.Name == "version of "+name })
		if i < 0 {
			i = len(all)
			all = append(all, Document{Name: "version of " + name, Files: maps.Clone(skeleton.Files)})
		}
		all[i].Files[file] = f.Data
	}
	return all
}
