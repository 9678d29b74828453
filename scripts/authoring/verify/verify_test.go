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
	"golang.org/x/tools/txtar"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout/command"
)

// quick lists the checks that are fast enough to run on the small repository in a test.
var quick = []string{
	"files", "labs-list", "mutants", "recordings", "format", "package-comments", "prose", "shared-files", "go-version",
	"module-versions", "tidy",
	"generated", "pages", "skeletons", "lint",
}

// nothing is the path of a program that finds nothing and generates nothing.
const nothing = "true"

// unpacked unpacks the small repository from testdata.
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

// inOrder returns the small repository after Fix, committed.
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

// edit replaces a text that occurs once in a file.
func edit(t *testing.T, root, name, old, replacement string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(content), old) != 1 {
		t.Fatalf("%s does not have %q exactly once:\n%s", name, old, content)
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
	run(t, root, "git", "-c", "user.name=test", "-c", "user.email=test@example.com",
		"commit", "-q", "--allow-empty", "-m", "test")
}

// shown runs Verify or Fix, and returns its output.
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

// tree returns every file of the repository except git's own.
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

func TestFixRepairsRepository(t *testing.T) {
	t.Parallel()
	root := unpacked(t)
	if out, err := verify(t, root, quick...); err == nil {
		t.Errorf("Verify found nothing in a repository without skeletons:\n%s", out)
	}
	out, err := fix(t, root, quick...)
	if err != nil {
		t.Fatalf("fix: %v\n%s", err, out)
	}
	for _, name := range []string{
		"docs/lecture.md", "solutions/02-sale/shop.go", "solutions/02-sale/PROJECT",
		"labs/01-shop/README.md", "labs/02-sale/sale.go",
	} {
		if !strings.Contains(out, "changed "+name+"\n") {
			t.Errorf("Fix did not report the change of %s:\n%s", name, out)
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

// The test uses the real controller-gen and the first lab of the course.
func TestStaleGeneratedFilesAreRegenerated(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	repoRoot, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	controllerGen := gobuild.Target{
		Package: "sigs.k8s.io/controller-tools/cmd/controller-gen",
		Module:  filepath.Join(repoRoot, "scripts", "checkout", "tools"),
		Output:  filepath.Join(repoRoot, ".cache", "bin", "controller-gen"),
	}
	if err := controllerGen.Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "solutions/01-icecream"),
		os.DirFS(filepath.Join(repoRoot, "solutions/01-icecream"))); err != nil {
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
	if err == nil || !strings.Contains(out, copies+": is missing") ||
		!strings.Contains(out, "-  scope: Namespaced\n    +  scope: Cluster") {
		t.Errorf("error %v, output\n%s", err, out)
	}
	if out, err := shown(t, options, Fix); err != nil {
		t.Fatalf("fix: %v\n%s", err, out)
	}
	if diff := cmp.Diff(before, tree(t, root)); diff != "" {
		t.Errorf("after the fix (-want +got):\n%s", diff)
	}
}

func TestMarkedFileMayDiffer(t *testing.T) {
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

func TestFileMarkedAloneIsNotCopied(t *testing.T) {
	t.Parallel()
	root := inOrder(t)
	write(t, root, "solutions/01-shop/answers.yaml", "#lab:alone lab 2 does not ask this\nanswer: yes\n")
	for _, run := range []func(*testing.T, string, ...string) (string, error){verify, fix} {
		if out, err := run(t, root, "shared-files"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if content, err := os.ReadFile(
		filepath.Join(root, "solutions/02-sale/answers.yaml"),
	); !errors.Is(err, fs.ErrNotExist) {
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
	for _, want := range []string{
		"labs/01-shop has changes that are not committed", "solutions/02-sale/PROJECT differs from",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want it to contain %q", err, want)
		}
	}
	after := tree(t, root)
	for _, name := range []string{"labs/01-shop/shop.go", "labs/01-shop/README.md", "solutions/02-sale/PROJECT"} {
		if diff := cmp.Diff(before[filepath.Join(root, name)], after[filepath.Join(root, name)]); diff != "" {
			t.Errorf("%s has changed:\n%s", name, diff)
		}
	}
}

func TestLinterOutputIsShown(t *testing.T) {
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

func TestCompileErrorsOnOtherSystems(t *testing.T) {
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

func TestUnknownCheckIsNamed(t *testing.T) {
	t.Parallel()
	_, err := verify(t, t.TempDir(), "skeleton")
	if err == nil || !strings.HasPrefix(err.Error(), `there is no check "skeleton": there are files, labs-list, `) {
		t.Errorf("error %v", err)
	}
}
