// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	const (
		path1, path2 = "lva.io/operators/labs/01-icecream", "lva.io/operators/labs/02-reconciler"
		mine         = "example.com/icecream"
	)
	for _, test := range []struct {
		name string
		in   files
		// want is the folder, or the beginning of the error.
		want string
	}{
		{"the module itself", labFiles("", path2), "."},
		{"a module whose name identifies no lab", labFiles("", mine), "."},
		{"in a folder", labFiles("my-work/", mine), "my-work"},
		{"in a folder of GitHub's ZIP", labFiles("operator-main/", mine), "operator-main"},
		{"a module of tools beside it", join(labFiles("", mine), files{"tools/go.mod": "module tools\n"}), "."},
		{
			"a whole repository",
			join(labFiles("labs/01-icecream/", path1), labFiles("labs/02-reconciler/", path2)),
			"labs/02-reconciler",
		},
		{
			"one in GitHub's ZIP",
			join(labFiles("x-main/labs/01-icecream/", path1), labFiles("x-main/labs/02-reconciler/", path2)),
			"x-main/labs/02-reconciler",
		},
		{
			"a clone of the course",
			join(labFiles("labs/02-reconciler/", path2),
				labFiles("solutions/02-reconciler/", "lva.io/operators/solutions/02-reconciler"),
				labFiles("out/kept/1/02-reconciler/", path2), files{"scripts/go.mod": "module lva.io/operators/scripts\n"}),
			"labs/02-reconciler",
		},
		{
			"only the solution", labFiles("solutions/02-reconciler/", "lva.io/operators/solutions/02-reconciler"),
			"solutions/02-reconciler",
		},
		{"a copy of the solution", labFiles("", "lva.io/operators/solutions/02-reconciler"), "."},
		{"folders with other names", join(labFiles("lab1/", mine), labFiles("Lab_02/", mine)), "Lab_02"},
		{"folders with numbers", join(labFiles("1/", mine), labFiles("2/", mine)), "2"},
		{"numbers of two digits", join(labFiles("12/", mine), labFiles("02/", mine)), "02"},
		{"named by their module paths", join(labFiles("a/", path1), labFiles("b/", path2)), "b"},
		{
			"the folder takes precedence over an unchanged module path",
			join(labFiles("01-icecream/", path1), labFiles("02-reconciler/", path1)), "02-reconciler",
		},
		{"by API group", join(labFiles("a/", mine), files{"b/go.mod": "module b\n", "b/main.go": "package b\n"}), "a"},
		{"the only one, without the API group", files{"a/go.mod": "module a\n"}, "a"},
		{"a module in a folder of its lab", labFiles("02-reconciler/project/", mine), "02-reconciler/project"},
		{
			"modules in vendor and testdata are ignored",
			join(labFiles("a/", mine), labFiles("vendor/x/", mine), labFiles("testdata/y/", mine), labFiles(".cache/z/", mine)),
			"a",
		},
		{"a broken go.mod", files{"02-reconciler/go.mod": "\x00"}, "02-reconciler"},
		{
			"two fit by name", join(labFiles("a/02-reconciler/", path2), labFiles("b/02-reconciler/", path2)),
			"2 Go modules in it can be that of lab 2 (a/02-reconciler, b/02-reconciler): leave only one of them",
		},
		{
			"two fit by API group", join(labFiles("a/", mine), labFiles("b/", mine)),
			"2 Go modules in it can be that of lab 2 (a, b): leave only one",
		},
		{
			"another lab", labFiles("labs/01-icecream/", path1),
			"none of its Go modules is that of lab 2 (02-reconciler): hand in the folder of the lab, " +
				"named 02-reconciler. There are labs/01-icecream of lab 1",
		},
		{"another lab by its module path", labFiles("", path1), "none of its Go modules is that of lab 2"},
		{"a lab that the course does not have", labFiles("lab-3/", mine), "none of its Go modules is that of lab 2"},
		{
			"none",
			files{"main.go": "package main\n"},
			"there is no go.mod in it: hand in the folder of the lab, with its go.mod",
		},
		{"too deep", labFiles(strings.Repeat("x/", 12), mine), "there is no go.mod in it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "submission")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			test.in.write(t, dir)
			got, err := Find(dir, lab2, course, ownsGroup)
			if err == nil {
				got, err = filepath.Rel(dir, got)
			}
			if err != nil && strings.HasPrefix(err.Error(), test.want) {
				_, missing := errors.AsType[*MissingError](err)
				_, several := errors.AsType[*SeveralError](err)
				if missing == several {
					t.Errorf("Find() error = %#v", err)
				}
				return
			}
			if filepath.ToSlash(got) != test.want || err != nil {
				t.Errorf("Find() = %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// TestFindUsesFolderName checks that the name of the searched folder decides only if nothing else does, because it may
// be the student's name.
func TestFindUsesFolderName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"operators-lab-2-alice-main": true, "02-reconciler": true, "02-reconciler-main": true,
		"lab1": false, "01-icecream": false, "1": true, "07-mueller": true, "lab-12": false,
		"collab-1": true, "ada": true,
	} {
		dir := filepath.Join(t.TempDir(), name)
		labFiles("", "example.com/x").write(t, dir)
		if _, err := Find(dir, lab2, course, nil); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFindInMissingFolder(t *testing.T) {
	t.Parallel()
	if _, err := Find(filepath.Join(t.TempDir(), "missing"), lab2, course, nil); err == nil ||
		!strings.Contains(err.Error(), "missing") {
		t.Errorf("Find() error = %v", err)
	}
}

func TestHasGroup(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]bool{
		"// +groupName=demo.lva.io\n": true, `schema.GroupVersion{Group: "demo.lva.io", Version: "v1"}`: true,
		"apiVersion: demo.lva.io/v1\n": true, "other.demo.lva.io": false,
		"demo.lva.io.example": false, "demoxlva.io": false, "demo.lva.io-x": false, "": false,
	} {
		dir := t.TempDir()
		files{"api/v1/x.go": content}.write(t, dir)
		if got := HasGroup(dir, "apps.lva.io", "demo.lva.io"); got != want {
			t.Errorf("HasGroup() of %q = %t", content, got)
		}
		if HasGroup(dir) || HasGroup(filepath.Join(dir, "missing"), "demo.lva.io") {
			t.Errorf("%q: HasGroup() = true without groups or in a missing folder", content)
		}
	}
}
