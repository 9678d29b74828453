// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	goversion "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
	"golang.org/x/tools/txtar"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout/command"
)

// quick are the checks that the small repository can go through within a test.
var quick = []string{
	"files", "labs-list", "mutants", "recordings", "format", "package-comments", "prose", "shared-files", "go-version",
	"module-versions", "tidy",
	"generated", "pages", "skeletons", "lint",
}

// nothing stands for programs that find nothing, and generate nothing.
const nothing = "true"

// unpacked is the small repository as it is in testdata.
func unpacked(t *testing.T) string {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/shop.txtar")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, f := range archive.Files {
		write(t, root, f.Name, string(f.Data))
	}
	schema, err := os.ReadFile("../../../labs/labs.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "labs/labs.schema.json", string(schema))
	run(t, root, "git", "init", "-q")
	commit(t, root)
	return root
}

// inOrder is the small repository with all that Fix makes, committed.
func inOrder(t *testing.T) string {
	t.Helper()
	root := unpacked(t)
	if out, err := fix(t, root, quick...); err != nil {
		t.Fatalf("fix: %v\n%s", err, out)
	}
	commit(t, root)
	return root
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	target := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// edit replaces a text that is in a file once.
func edit(t *testing.T, root, name, old, replacement string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(content), old) != 1 {
		t.Fatalf("%s has %q not once:\n%s", name, old, content)
	}
	write(t, root, name, strings.Replace(string(content), old, replacement, 1))
}

func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	runner, err := command.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	if _, err := runner.Run(t.Context(), dir, nil, program, args...); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, root string) {
	t.Helper()
	run(t, root, "git", "add", "-A")
	run(t, root, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-q", "--allow-empty", "-m", "test")
}

// shown runs Verify or Fix, and returns what a person sees.
func shown(t *testing.T, options Options, do func(context.Context, Options) error) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	options.Out = out
	if options.ControllerGen == "" {
		options.ControllerGen = nothing
	}
	if options.GolangCILint == "" {
		options.GolangCILint = nothing
	}
	problem := do(t.Context(), options)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), problem
}

func verify(t *testing.T, root string, only ...string) (string, error) {
	t.Helper()
	return shown(t, Options{Root: root, Only: only}, Verify)
}

func fix(t *testing.T, root string, only ...string) (string, error) {
	t.Helper()
	return shown(t, Options{Root: root, Only: only}, Fix)
}

// tree is every file of the repository but git's own.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		content, err := os.ReadFile(name)
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestFixPutsARepositoryInOrder(t *testing.T) {
	t.Parallel()
	root := unpacked(t)
	if out, err := verify(t, root, quick...); err == nil {
		t.Errorf("nothing is found in a repository without skeletons:\n%s", out)
	}
	out, err := fix(t, root, quick...)
	if err != nil {
		t.Fatalf("fix: %v\n%s", err, out)
	}
	for _, name := range []string{
		"docs/lecture.md", "solutions/02-sale/shop.go", "solutions/02-sale/PROJECT", "labs/01-shop/README.md", "labs/02-sale/sale.go",
	} {
		if !strings.Contains(out, "changed "+name+"\n") {
			t.Errorf("the fix does not say that it changed %s:\n%s", name, out)
		}
	}
	if out, err := verify(t, root, quick...); err != nil {
		t.Errorf("after the fix: %v\n%s", err, out)
	}
	// Lab 2 begins with lab 1 done.
	content, err := os.ReadFile(filepath.Join(root, "labs/02-sale/shop.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), "return true") || strings.Contains(string(content), "lab:") {
		t.Errorf("shop.go of lab 2 is not the solution of lab 1:\n%s", content)
	}
	if out, err := fix(t, root, quick...); err != nil || !strings.HasSuffix(out, "There was nothing to fix.\n") {
		t.Errorf("a second fix: %v\n%s", err, out)
	}
}

// scene is a repository that a test spoils.
type scene struct {
	t    *testing.T
	root string
}

func (s scene) edit(name, old, replacement string) {
	s.t.Helper()
	edit(s.t, s.root, name, old, replacement)
}

func (s scene) write(name, content string) {
	s.t.Helper()
	write(s.t, s.root, name, content)
}

func TestProblemsAreFoundAndFixed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(s scene)
		// check is the one that fails, alone unless also is given.
		check string
		also  string
		// want is what a person reads.
		want string
		// byHand: Fix does not help.
		byHand bool
	}{
		{
			name:  "a stale skeleton",
			spoil: func(s scene) { s.edit("labs/01-shop/shop.go", "return false", "return true") },
			check: "skeletons", want: "labs/01-shop/shop.go: is stale: its solution generates another skeleton",
		},
		{
			name: "a file too many in a lab",
			spoil: func(s scene) {
				s.write("labs/01-shop/extra.yaml", "a: 1\n")
			},
			check: "skeletons", want: "labs/01-shop/extra.yaml: should not be there",
		},
		{
			name: "a lab without a solution",
			spoil: func(s scene) {
				s.write("labs/03-gone/notes.txt", "")
			},
			check: "skeletons", want: "labs/03-gone: has no solution", byHand: true,
		},
		{
			name: "a change in the file of an earlier lab",
			spoil: func(s scene) {
				s.edit("solutions/01-shop/PROJECT", "repo:", "domain: lva.io\nrepo:")
			},
			check: "shared-files", also: "skeletons",
			want: "solutions/02-sale/PROJECT: is stale: it is not that of solutions/01-shop/PROJECT",
		},
		{
			name: "a generated file that nothing generates",
			spoil: func(s scene) {
				s.write("solutions/01-shop/config/crd/bases/shop.yaml", "a: 1\n")
			},
			check: "generated", want: "solutions/01-shop/config/crd/bases/shop.yaml: should not be there",
		},
		{
			name: "code that is not what a page shows",
			spoil: func(s scene) {
				s.edit("docs/lecture.md", "return true", "return yes")
			},
			check: "pages", want: "docs/lecture.md: is stale",
		},
		{
			name:  "a dead link",
			spoil: func(s scene) { s.edit("README.md", "#open", "#closed") },
			check: "pages", want: "README.md:3: docs/lecture.md#closed is a dead link", byHand: true,
		},
		{
			name:  "a sentence without a subject",
			spoil: func(s scene) { s.edit("README.md", "See", "Somebody opens the shop. See") },
			check: "prose", want: `README.md:3: has "Somebody": name the subject`, byHand: true,
		},
		{
			name: "a check whose lecture is gone",
			spoil: func(s scene) {
				s.edit("docs/lecture.md", "# Open", "# Closed")
				s.edit("README.md", "#open", "#closed")
			},
			check: "labs-list", want: "#open", byHand: true,
		},
		{
			name:  "another version of Go",
			spoil: func(s scene) { s.edit("scripts/go.mod", "go 1.26.0", "go 1.25.0") },
			check: "go-version", want: "scripts/go.mod: names Go 1.25.0, and go.work names 1.26.0",
		},
		{
			name: "an image that builds with another version of Go",
			spoil: func(s scene) {
				for _, folder := range []string{"solutions", "labs"} {
					s.write(folder+"/02-sale/Dockerfile", "FROM golang:1.25 AS builder\n")
				}
			},
			check:  "go-version",
			want:   "solutions/02-sale/Dockerfile: go.work names Go 1.26.0: begin its first stage with FROM golang:1.26",
			byHand: true,
		},
		{
			name: "a toolchain",
			spoil: func(s scene) {
				s.edit("scripts/go.mod", "go 1.26.0\n", "go 1.26.0\n\ntoolchain go1.26.3\n")
			},
			check: "go-version", want: "scripts/go.mod: names a toolchain",
		},
		{
			name: "a requirement that nothing needs",
			spoil: func(s scene) {
				s.edit("scripts/go.mod", "go 1.26.0\n", "go 1.26.0\n\nrequire golang.org/x/mod v0.32.0\n")
			},
			check: "tidy", want: "scripts/go.mod: is not tidy",
		},
		{
			name: "no license",
			spoil: func(s scene) {
				s.edit("scripts/scripts.go", license+"\n", "")
			},
			check: "files", want: "scripts/scripts.go: does not begin with the two SPDX lines",
		},
		{
			name: "a package without a comment",
			spoil: func(s scene) {
				s.edit("scripts/scripts.go", "// Package scripts does nothing.\n", "")
			},
			check: "package-comments", want: "scripts: no file has a package comment: write a doc.go", byHand: true,
		},
		{
			name: "a command without a comment",
			spoil: func(s scene) {
				s.write("scripts/cmd/shop/main.go", license+"\npackage main\n\nfunc main() {}\n")
				s.write("scripts/cmd/till/main.go", license+"\n// Command till counts.\npackage main\n\nfunc main() {}\n")
				s.write("scripts/cmd/testdata/main.go", license+"\npackage main\n")
			},
			check: "package-comments", want: "  scripts/cmd/shop: no file has a package comment: write a doc.go\n", byHand: true,
		},
		{
			name: "a path of a machine",
			spoil: func(s scene) {
				s.edit("README.md", "See", "In /"+"home/anna/labs/ see")
			},
			check: "files", want: "README.md:3: names /" + "home/anna/", byHand: true,
		},
		{
			name: "the path of this repository",
			spoil: func(s scene) {
				s.edit("README.md", "See", "In "+s.root+"/docs see")
			},
			check: "files", want: "which is there on one machine only", byHand: true,
		},
		{
			name: "a large file",
			spoil: func(s scene) {
				s.write("docs/large.txt", strings.Repeat("x", 2<<20))
			},
			check: "files", want: "docs/large.txt: has 2048 KiB", byHand: true,
		},
		{
			name:  "code that is not formatted",
			spoil: func(s scene) { s.edit("scripts/scripts.go", "package scripts", "package scripts\n\n\n") },
			check: "format", want: "scripts/scripts.go: is stale: gofmt formats it another way",
		},
		{
			name: "a mutant of code that has changed",
			spoil: func(s scene) {
				s.edit("solutions/01-shop/mutants.yaml", "find: return true", "find: return yes")
			},
			check: "mutants", want: "the mutant closed does not apply: edit 1: its text to find is in shop.go 0 times", byHand: true,
		},
		{
			name: "a mutant of the lab's part",
			spoil: func(s scene) {
				s.edit("solutions/01-shop/mutants.yaml", "find: return true, replace: return false", "find: open the shop, replace: close it")
			},
			check: "mutants", want: "it changes nothing but a comment for the lab", byHand: true,
		},
		{
			name: "a mutant of a check that is not there",
			spoil: func(s scene) {
				s.edit("solutions/01-shop/mutants.yaml", `{open: "closed"}`, `{opened: "closed"}`)
			},
			check: "mutants", want: `the mutant closed: lab 01-shop has no check "opened"`, byHand: true,
		},
		{
			name: "a mutant that proves nothing",
			spoil: func(s scene) {
				s.edit("solutions/01-shop/mutants.yaml", `{open: "closed"}`, `{}`)
			},
			check: "mutants", want: "the mutant closed fails no check: then it proves nothing", byHand: true,
		},
	}
	ordered := os.DirFS(inOrder(t))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if err := os.CopyFS(root, ordered); err != nil {
				t.Fatal(err)
			}
			test.spoil(scene{t, root})
			commit(t, root)
			before := tree(t, root)
			out, err := verify(t, root, quick...)
			if err == nil {
				t.Fatalf("nothing found:\n%s", out)
			}
			failed := test.check
			if test.also != "" {
				failed += ", " + test.also
			}
			if !strings.Contains(err.Error(), "("+failed+")") {
				t.Errorf("error %v, want that of %s\n%s", err, failed, out)
			}
			if !strings.Contains(out, test.want) {
				t.Errorf("want %q in\n%s", test.want, out)
			}
			if got := strings.Contains(out, "make fix"); got == test.byHand {
				t.Errorf("told to `make fix`: %v, want %v\n%s", got, !test.byHand, out)
			}
			if diff := cmp.Diff(before, tree(t, root)); diff != "" {
				t.Errorf("looking has changed the tree:\n%s", diff)
			}
			if test.byHand {
				return
			}
			if out, err := fix(t, root, quick...); err != nil {
				t.Fatalf("fix: %v\n%s", err, out)
			}
			if out, err := verify(t, root, quick...); err != nil {
				t.Errorf("after the fix: %v\n%s", err, out)
			}
		})
	}
}

// The test uses the real controller-gen and the first lab of the course.
func TestStaleGeneratedFilesAreMadeAnew(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	ours, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	controllerGen := gobuild.Target{
		Package: "sigs.k8s.io/controller-tools/cmd/controller-gen",
		Module:  filepath.Join(ours, "scripts", "checkout", "tools"),
		Output:  filepath.Join(ours, ".cache", "bin", "controller-gen"),
	}
	if err := controllerGen.Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "solutions/01-icecream"), os.DirFS(filepath.Join(ours, "solutions/01-icecream"))); err != nil {
		t.Fatal(err)
	}
	run(t, root, "git", "init", "-q")
	options := Options{Root: root, ControllerGen: controllerGen.Output, Only: []string{"generated"}}
	if out, err := shown(t, options, Verify); err != nil {
		t.Fatalf("before: %v\n%s", err, out)
	}
	before := tree(t, root)

	const (
		crd    = "solutions/01-icecream/config/crd/bases/demo.lva.io_icecreams.yaml"
		copies = "solutions/01-icecream/api/v1/zz_generated.deepcopy.go"
	)
	edit(t, root, crd, "scope: Cluster", "scope: Namespaced")
	if err := os.Remove(filepath.Join(root, copies)); err != nil {
		t.Fatal(err)
	}
	out, err := shown(t, options, Verify)
	if err == nil || !strings.Contains(out, copies+": is missing") || !strings.Contains(out, "-  scope: Namespaced\n    +  scope: Cluster") {
		t.Errorf("error %v, output\n%s", err, out)
	}
	if out, err := shown(t, options, Fix); err != nil {
		t.Fatalf("fix: %v\n%s", err, out)
	}
	if diff := cmp.Diff(before, tree(t, root)); diff != "" {
		t.Errorf("after the fix (-want +got):\n%s", diff)
	}
}

func TestAFileThatSaysSoMayDiffer(t *testing.T) {
	t.Parallel()
	root := inOrder(t)
	write(t, root, "solutions/02-sale/PROJECT", "#lab:differs it has a webhook\nrepo: other\n")
	if out, err := verify(t, root, "shared-files"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := fix(t, root, "shared-files"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(root, "solutions/02-sale/PROJECT"))
	if err != nil || !strings.Contains(string(content), "other") {
		t.Errorf("PROJECT of lab 2 is %q, error %v; want it untouched", content, err)
	}
}

func TestAFileOfOneLabAloneIsNotCopied(t *testing.T) {
	t.Parallel()
	root := inOrder(t)
	write(t, root, "solutions/01-shop/answers.yaml", "#lab:alone lab 2 does not ask this\nanswer: yes\n")
	for _, run := range []func(*testing.T, string, ...string) (string, error){verify, fix} {
		if out, err := run(t, root, "shared-files"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if content, err := os.ReadFile(filepath.Join(root, "solutions/02-sale/answers.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lab 2 has %q, error %v; want no such file", content, err)
	}
}

func TestFixKeepsUncommittedWork(t *testing.T) {
	t.Parallel()
	root := inOrder(t)
	edit(t, root, "labs/01-shop/shop.go", "return false", "return 1 > 0 // a student's try")
	edit(t, root, "solutions/02-sale/PROJECT", "repo:", "edited: true\nrepo:")
	edit(t, root, "solutions/01-shop/TASK.md", "# The shop", "# The small shop")
	before := tree(t, root)
	out, err := fix(t, root, quick...)
	if err == nil {
		t.Fatalf("no error:\n%s", out)
	}
	for _, want := range []string{"labs/01-shop has changes that are not committed", "solutions/02-sale/PROJECT differs from"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	after := tree(t, root)
	for _, name := range []string{"labs/01-shop/shop.go", "labs/01-shop/README.md", "solutions/02-sale/PROJECT"} {
		if diff := cmp.Diff(before[filepath.Join(root, name)], after[filepath.Join(root, name)]); diff != "" {
			t.Errorf("%s has changed:\n%s", name, diff)
		}
	}
}

func TestOutputOfTheLinterIsShown(t *testing.T) {
	t.Parallel()
	root := inOrder(t)
	linter := filepath.Join(t.TempDir(), "linter")
	if err := os.WriteFile(linter, []byte("#!/bin/sh\necho scripts.go:1: bad; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := shown(t, Options{Root: root, GolangCILint: linter, Only: []string{"lint"}}, Verify)
	if err == nil || !strings.Contains(out, "scripts: golangci-lint found\n    scripts.go:1: bad\n") {
		t.Errorf("error %v, output\n%s", err, out)
	}
}

func TestCodeThatDoesNotCompileForAnotherSystem(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"macos": "scripts_darwin.go", "linux-arm64": "scripts_linux_arm64.go"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := unpacked(t)
			if out, err := verify(t, root, name); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			write(t, root, "scripts/"+file, "package scripts\n\nvar _ = missing\n")
			out, err := verify(t, root, name)
			if err == nil || !strings.Contains(out, "undefined: missing") {
				t.Errorf("error %v, output\n%s", err, out)
			}
		})
	}
}

// The test serves the versions from a proxy of its own, so that it needs no network. It sets environment variables, so
// it is not parallel.
func TestModulesThatDisagreeAreRaised(t *testing.T) {
	proxy, cache := t.TempDir(), t.TempDir()
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		publish(t, proxy, "example.com/flavour", version)
	}
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(proxy))
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOMODCACHE", cache)
	t.Cleanup(func() {
		_ = filepath.WalkDir(cache, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				err = os.Chmod(name, 0o755)
			}
			return err
		})
	})
	root := unpacked(t)
	for dir, version := range map[string]string{"scripts": "v1.1.0", "solutions/01-shop": "v1.0.0"} {
		name := map[string]string{"scripts": "scripts", "solutions/01-shop": "shop"}[dir]
		write(t, root, dir+"/flavour.go", license+"\npackage "+name+"\n\nimport _ \"example.com/flavour\"\n")
		edit(t, root, dir+"/go.mod", "go 1.26.0\n", "go 1.26.0\n\nrequire example.com/flavour "+version+"\n")
		for _, args := range [][]string{{"mod", "download", "example.com/flavour"}, {"mod", "edit", "-fmt"}} {
			runIn(t, root+"/"+dir, args...)
		}
	}
	checks := []string{"module-versions", "tidy"}
	out, err := verify(t, root, checks...)
	want := "example.com/flavour is compiled in several versions; all should have v1.1.0\n" +
		"    v1.1.0       scripts/go.mod\n    v1.0.0       solutions/01-shop/go.mod\n"
	if err == nil || !strings.Contains(out, want) {
		t.Fatalf("error %v, want %q in\n%s", err, want, out)
	}
	if out, err := fix(t, root, checks...); err != nil {
		t.Fatalf("fix: %v\n%s", err, out)
	}
	if out, err := verify(t, root, checks...); err != nil {
		t.Errorf("after the fix: %v\n%s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(root, "solutions/01-shop/go.mod"))
	if err != nil || !strings.Contains(string(content), "example.com/flavour v1.1.0") {
		t.Errorf("go.mod is\n%s\nerror %v; want v1.1.0", content, err)
	}
}

// A program in an image has the module versions of its own module, and sometimes a newer Go. Its code is not compiled.
func TestAProgramOfAnImageHasVersionsOfItsOwn(t *testing.T) {
	t.Parallel()
	root := unpacked(t)
	const dir = "clusters/images/programs/big/"
	write(t, root, dir+"main.go", license+"\npackage main\n\nfunc main() { missing() }\n")
	goMod := "module example.com/big\n\ngo 1.26.3\n\nrequire example.com/needed v1.0.0\n"
	write(t, root, dir+"go.mod", goMod)
	checks := []string{"go-version", "module-versions", "macos", "linux-arm64"}
	if out, err := verify(t, root, checks...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := fix(t, root, checks...); err != nil {
		t.Errorf("fix: %v\n%s", err, out)
	}
	if content, err := os.ReadFile(filepath.Join(root, dir, "go.mod")); err != nil || string(content) != goMod {
		t.Errorf("fixing made go.mod\n%s\nerror %v", content, err)
	}
	edit(t, root, dir+"go.mod", "go 1.26.3", "go 1.25.0")
	if out, err := verify(t, root, "go-version"); err == nil || !strings.Contains(out, "names Go 1.25.0") {
		t.Errorf("with an older Go: error %v, output\n%s", err, out)
	}
}

// runIn runs the go command with leave to write go.sum.
func runIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	runner, err := command.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	if _, err := runner.Run(t.Context(), dir, []string{"GOFLAGS=-mod=mod"}, "go", args...); err != nil {
		t.Fatal(err)
	}
}

// publish puts a module with one package into a proxy's folder.
func publish(t *testing.T, proxy, name, version string) {
	t.Helper()
	source := t.TempDir()
	goMod := "module " + name + "\n\ngo 1.26.0\n"
	write(t, source, "go.mod", goMod)
	write(t, source, "flavour.go", "package flavour\n")
	dir := filepath.Join(proxy, name, "@v")
	write(t, dir, version+".info", `{"Version": "`+version+`"}`)
	write(t, dir, version+".mod", goMod)
	packed, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	if err := zip.CreateFromDir(packed, goversion.Version{Path: name, Version: version}, source); err != nil {
		t.Fatal(err)
	}
}

func TestAnUnknownCheckIsNamed(t *testing.T) {
	t.Parallel()
	_, err := verify(t, t.TempDir(), "skeleton")
	if err == nil || !strings.HasPrefix(err.Error(), `there is no check "skeleton": there are files, labs-list, `) {
		t.Errorf("error %v", err)
	}
}
