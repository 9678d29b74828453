// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gobuild

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"lva.io/operators/clusters/longtest"
)

const (
	module  = "module example.test/greeting\n\ngo 1.26\n"
	hello   = "package main\n\nfunc main() { println(\"hello\") }\n"
	goodbye = "package main\n\nfunc main() { println(\"goodbye\") }\n"
	aTest   = "package main\n\nimport \"testing\"\n\nfunc TestNothing(*testing.T) {}\n"
)

func TestEmbeddedFilesAreFoundInAnyFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "[course] *")
	var want []string
	for _, name := range []string{"page.html", "pages/one.html", "pages/deep/two.html", "main.go"} {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "page") {
			want = append(want, file)
		}
	}
	got, err := matching(folder, "all:page*")
	if slices.Sort(got); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("matching() = %q, %v; want %q", got, err, want)
	}
}

// newTarget returns a program of one file in a module of its own.
func newTarget(t *testing.T) Target {
	t.Helper()
	dir := t.TempDir()
	target := Target{Package: ".", Module: filepath.Join(dir, "module"), Output: filepath.Join(dir, "out", "greeting")}
	write(t, target, "go.mod", module)
	write(t, target, "main.go", hello)
	return target
}

func write(t *testing.T, target Target, name, content string) {
	t.Helper()
	file := filepath.Join(target.Module, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func ensure(t *testing.T, target Target) os.FileInfo {
	t.Helper()
	if err := target.Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(target.Output)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// wantOnlyResults fails the test if there are files that a build should have removed.
func wantOnlyResults(t *testing.T, target Target, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(target.Output))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("files beside the program = %v, want %v", names, want)
	}
}

func TestProgramIsBuiltOncePerSourceState(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	if target.Fresh() {
		t.Error("a program that was never built is fresh")
	}
	built := ensure(t, target)
	if output, err := exec.Command(target.Output).CombinedOutput(); err != nil || string(output) != "hello\n" {
		t.Fatalf("the program prints %q (%v)", output, err)
	}
	wantOnlyResults(t, target, "greeting", "greeting.lock", "greeting.stamp")

	for _, unimportant := range []struct{ name, content string }{
		{"README.md", "what a program is not made from"},
		{"main_test.go", aTest},
		{"testdata/broken.go", "not Go"},
		{"nested/go.mod", "module example.test/nested\n"},
		{"nested/nested.go", "package nested\n"},
		{"page.html", "which nothing embeds"},
		{"shop/shop.go", "package shop // which nothing imports\n"},
		{"shop/pages/menu.txt", "nothing embeds it"},
	} {
		write(t, target, unimportant.name, unimportant.content)
		if !target.Fresh() {
			t.Errorf("a change of %s makes the program stale", unimportant.name)
		}
	}
	if !os.SameFile(built, ensure(t, target)) {
		t.Error("the program was built again although its sources have not changed")
	}

	for _, important := range []struct{ name, content string }{
		{"main.go", goodbye},
		{"go.mod", module + "\n// changed\n"},
		{"another.go", "package main\n"},
		{"imports.go", "package main\n\nimport _ \"example.test/greeting/shop\"\n"},
		{"shop/shop.go", "package shop\n\n// Open is new.\nconst Open = true\n"},
		{"shop/pages.go", "package shop\n\nimport \"embed\"\n\n//go:embed pages\nvar pages embed.FS\n"},
		{"shop/pages/menu.txt", "vanilla"},
		{"shop/pages/nested/cone.txt", "new"},
	} {
		write(t, target, important.name, important.content)
		if target.Fresh() {
			t.Errorf("a change of %s does not make the program stale", important.name)
		}
		again := ensure(t, target)
		if os.SameFile(built, again) {
			t.Errorf("the program was not built again after a change of %s", important.name)
		}
		built = again
	}
	if output, err := exec.Command(target.Output).CombinedOutput(); err != nil || string(output) != "goodbye\n" {
		t.Errorf("the program prints %q (%v)", output, err)
	}
	if err := os.Remove(target.Output); err != nil {
		t.Fatal(err)
	}
	if target.Fresh() {
		t.Error("a removed program is fresh")
	}
}

// A package that is in Go's cache is not compiled again, and is not counted.
func TestCachedPackagesAreNotCounted(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	write(t, target, "page.html", target.Output)
	write(t, target, "page.go", "package main\n\nimport _ \"embed\"\n\n//go:embed page.html\nvar page string\n")
	write(t, target, "shop/shop.go", "package shop\n\nimport _ \"embed\"\n\n//go:embed menu.txt\nvar menu string\n")
	write(t, target, "shop/menu.txt", target.Output)
	write(t, target, "imports.go", "package main\n\nimport _ \"example.test/greeting/shop\"\n")
	count := func() (total int) {
		if err := target.Ensure(t.Context(), func(_ string, _, n int) { total = n }); err != nil {
			t.Fatal(err)
		}
		return total
	}
	if total := count(); total != 2 {
		t.Errorf("with an empty cache, %d packages are to be compiled, want 2", total)
	}
	target.LinkFlags = []string{"-X", "main.version=v2"}
	if total := count(); total > 1 {
		t.Errorf("%d packages are to be compiled, want at most the program's", total)
	}
}

func TestTestBinaryIncludesTestFiles(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	target.Test = true
	target.Package = "./tests"
	write(t, target, "tests/one_test.go", strings.Replace(aTest, "main", "tests", 1))
	built := ensure(t, target)
	if output, err := exec.Command(target.Output, "-test.v").CombinedOutput(); err != nil ||
		!strings.Contains(string(output), "--- PASS: TestNothing") {
		t.Errorf("the test binary prints %q (%v)", output, err)
	}
	write(t, target, "main.go", goodbye)
	if !os.SameFile(built, ensure(t, target)) {
		t.Error("the test binary was built again although its sources have not changed")
	}
	write(t, target, "tests/one_test.go", strings.Replace(aTest, "main", "tests", 1)+"\n// changed\n")
	again := ensure(t, target)
	if os.SameFile(built, again) {
		t.Error("the test binary was not built again after a change of a test")
	}
	write(t, target, "go.mod", module+"\n// a requirement, perhaps\n")
	if target.Fresh() {
		t.Error("a change of go.mod does not make the test binary stale")
	}
}

func TestLinkFlagsReachTheProgram(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	write(t, target, "main.go", "package main\n\nvar version = \"none\"\n\nfunc main() { println(version) }\n")
	target.LinkFlags = []string{"-X", "main.version=v1"}
	ensure(t, target)
	if output, err := exec.Command(target.Output).CombinedOutput(); err != nil || string(output) != "v1\n" {
		t.Errorf("the program prints %q (%v)", output, err)
	}
	target.LinkFlags = []string{"-X", "main.version=v2"}
	if target.Fresh() {
		t.Error("other link flags do not make the program stale")
	}
}

func TestConcurrentCallsBuildOnce(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	var built [2]os.FileInfo
	var building sync.WaitGroup
	for i := range built {
		building.Go(func() {
			if err := target.Ensure(t.Context(), nil); err != nil {
				t.Error(err)
				return
			}
			built[i], _ = os.Stat(target.Output)
		})
	}
	building.Wait()
	if !t.Failed() && !os.SameFile(built[0], built[1]) {
		t.Error("the second Ensure built the program again")
	}
	wantOnlyResults(t, target, "greeting", "greeting.lock", "greeting.stamp")
}

func TestCompileErrorHasItsPosition(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	built := ensure(t, target)
	write(t, target, "main.go", "package main\n\nfunc main() {\n\tundefinedName()\n}\n")
	err := target.Ensure(t.Context(), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "building greeting: go build: exit status 1\n") ||
		!strings.Contains(err.Error(), "main.go:4:2: undefined: undefinedName") {
		t.Errorf("Ensure() error = %v", err)
	}
	if target.Fresh() {
		t.Error("the program is fresh after a failed build")
	}
	// The program is still that of the sources as they were.
	write(t, target, "main.go", hello)
	if !os.SameFile(built, ensure(t, target)) {
		t.Error("the program was built again")
	}
}

func TestMissingGoIsReported(t *testing.T) {
	target := newTarget(t)
	t.Setenv("PATH", t.TempDir())
	err := target.Ensure(t.Context(), nil)
	want := "building greeting: Go is not installed or not on PATH: install it from go.dev/dl or your system's packages"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func TestModifiedProgramIsRebuilt(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	ensure(t, target)
	program, err := os.ReadFile(target.Output)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(target.Output)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"cut short":   func(p []byte) []byte { return p[:len(p)/2] },
		"one byte":    func(p []byte) []byte { p[len(p)/2] ^= 1; return p },
		"another one": func([]byte) []byte { return []byte("#!/bin/sh\necho 100 points\n") },
	} {
		if err := os.WriteFile(target.Output, damage(bytes.Clone(program)), 0o755); err != nil {
			t.Fatal(err)
		}
		// Anyone who changes a program can also reset its time.
		if err := os.Chtimes(target.Output, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		if target.Fresh() {
			t.Errorf("%s: the program is fresh", name)
		}
		ensure(t, target)
		if again, err := os.ReadFile(target.Output); err != nil || !bytes.Equal(again, program) {
			t.Errorf("%s: the program was not built again: %v", name, err)
		}
	}
}

// Files of a cache that was copied or unpacked have other times and inode numbers.
func TestCopiedProgramIsFresh(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	ensure(t, target)
	content, err := os.ReadFile(target.Output)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(target.Output), os.WriteFile(target.Output, content, 0o755)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(target.Output + ".stamp")
	if err != nil {
		t.Fatal(err)
	}
	if !target.Fresh() {
		t.Error("a copy is not fresh")
	}
	if after, err := os.ReadFile(target.Output + ".stamp"); err != nil || bytes.Equal(after, before) {
		t.Errorf("the digest is computed again each time: %v", err)
	}
}

// Without Go on PATH, the user keeps a program that took minutes to build, and can use it.
func TestBuiltProgramIsKeptWithoutGo(t *testing.T) {
	target := newTarget(t)
	built := ensure(t, target)
	t.Setenv("PATH", t.TempDir())
	if !target.Fresh() || !os.SameFile(built, ensure(t, target)) {
		t.Error("the program is not fresh without Go")
	}
	write(t, target, "main.go", goodbye)
	if err := target.Ensure(t.Context(), nil); !errors.Is(err, ErrNoGo) {
		t.Errorf("Ensure() error = %v", err)
	}
	wantOnlyResults(t, target, "greeting", "greeting.lock", "greeting.stamp")
	write(t, target, "main.go", hello)
	if !os.SameFile(built, ensure(t, target)) {
		t.Error("the failed call removed the program")
	}
}

func TestBuildIsReproducible(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	var programs [][]byte
	for range 2 {
		target := newTarget(t)
		for _, args := range [][]string{
			{"init", "--quiet"},
			{"add", "."},
			{"-c", "user.name=t", "-c", "user.email=t@example.test", "commit", "--quiet", "--message", target.Module},
		} {
			command := exec.Command("git", args...)
			command.Dir = target.Module
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v: %s", args, err, out)
			}
		}
		ensure(t, target)
		program, err := os.ReadFile(target.Output)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, program)
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Error("the two programs differ")
	}
}

func TestProgramIsForRequestedArchitecture(t *testing.T) {
	t.Parallel()
	longtest.Proof(t) // it compiles the standard library
	target := newTarget(t)
	ensure(t, target)
	for target.Arch = range machines {
		if target.Arch == runtime.GOARCH {
			continue
		}
		if target.Fresh() {
			t.Errorf("the program is fresh for %s", target.Arch)
		}
		ensure(t, target)
		program, err := elf.Open(target.Output)
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		if program.Machine != machines[target.Arch] {
			t.Errorf("the program for %s has the architecture %s", target.Arch, program.Machine)
		}
	}
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func TestTagsSelectFilesAndMakeProgramStale(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	write(t, target, "main.go", "//go:build !polite\n\n"+hello)
	write(t, target, "polite.go", "//go:build polite\n\n"+goodbye)
	ensure(t, target)
	target.Tags = []string{"polite"}
	if target.Fresh() {
		t.Error("the program is fresh with other tags")
	}
	ensure(t, target)
	if out, err := exec.Command(target.Output).CombinedOutput(); err != nil || string(out) != "goodbye\n" {
		t.Errorf("the output is %q (%v)", out, err)
	}
}
