// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package skeleton

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout/command"
)

// root is the repository that this test is part of.
const root = "../../.."

// nothing is the path of a controller-gen for labs without API types.
const nothing = "true"

// repository unpacks an archive into a temporary repository and returns it with the files below want/.
func repository(t *testing.T, archive string) (dir string, want map[string]string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", archive))
	if err != nil {
		t.Fatal(err)
	}
	dir, want = t.TempDir(), map[string]string{}
	for _, f := range txtar.Parse(content).Files {
		if name, ok := strings.CutPrefix(f.Name, "want/"); ok {
			want[name] = string(f.Data)
			continue
		}
		write(t, filepath.Join(dir, f.Name), string(f.Data))
	}
	return dir, want
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// contents returns the files of a folder, as the package reads them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := readFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		all[f.name] = string(f.content)
	}
	return all
}

func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	runner, err := command.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	out, err := runner.Run(t.Context(), dir, nil, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func commit(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		run(t, dir, "git", "init", "-q")
		write(t, filepath.Join(dir, ".gitignore"), "/out/\n/labs/*/bin/\n*.log\n")
	}
	run(t, dir, "git", "add", "-A")
	run(t, dir, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "test")
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	dir, want := repository(t, "shop.txtar")
	picture := "\x89PNG\x00"
	write(t, filepath.Join(dir, "solutions/01-shop/cone.png"), picture)
	want["cone.png"] = picture
	target := filepath.Join(t.TempDir(), "lab")
	if err := (Generator{Root: dir, ControllerGen: nothing}).Generate(t.Context(), "01-shop", target); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, contents(t, target)); diff != "" {
		t.Errorf("lab (-want +got):\n%s", diff)
	}
	run(t, target, "go", "vet", "./...")
}

func TestNearlyEmptySkeleton(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"TASK.md": "# Build it\n", "go.mod": "module lva.io/operators/solutions/09-shop\n\ngo 1.26.0\n",
		"cmd/main.go":      "package main\n\nfunc main() {}\n",
		"cmdline/x.go":     "package cmdline\n",
		"internal/shop.go": "package internal\n",
		"skeleton.txt":     "# what is there\ngo.mod\ncmd\nTASK.md\n",
	} {
		write(t, filepath.Join(dir, "solutions", "09-shop", filepath.FromSlash(name)), content)
	}
	generator := Generator{Root: dir, ControllerGen: nothing}
	target := filepath.Join(t.TempDir(), "lab")
	if err := generator.Generate(t.Context(), "09-shop", target); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"README.md": "# Build it\n", "go.mod": "module lva.io/operators/labs/09-shop\n\ngo 1.26.0\n",
		"cmd/main.go": "package main\n\nfunc main() {}\n",
	}
	if diff := cmp.Diff(want, contents(t, target)); diff != "" {
		t.Errorf("lab (-want +got):\n%s", diff)
	}

	write(t, filepath.Join(dir, "solutions", "09-shop", "skeleton.txt"), "TASK.md\ncmd/mian.go\n")
	err := generator.Generate(t.Context(), "09-shop", filepath.Join(t.TempDir(), "lab"))
	if err == nil || !strings.Contains(err.Error(), "solutions/09-shop/skeleton.txt:2: the solution has no cmd/mian.go") {
		t.Errorf("got error %v, want one with the line", err)
	}
}

func TestGenerateRefusesNonEmptyFolder(t *testing.T) {
	t.Parallel()
	dir, _ := repository(t, "shop.txtar")
	target := t.TempDir()
	write(t, filepath.Join(target, "main.go"), "mine")
	err := Generator{Root: dir, ControllerGen: nothing}.Generate(t.Context(), "01-shop", target)
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("got error %v, want one about a folder that is not empty", err)
	}
	if diff := cmp.Diff(map[string]string{"main.go": "mine"}, contents(t, target)); diff != "" {
		t.Errorf("folder (-want +got):\n%s", diff)
	}
}

func TestSolutionErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// file and content are added to the shop.
		file, content, want string
	}{
		{
			"the same region twice", "other.yaml", "#lab:begin shout\n#lab:end\n",
			`solutions/01-shop/other.yaml:1: the region "shout" already exists ` +
				`in solutions/01-shop/main.go:14: give each region of a lab its own name`,
		},
		{
			"a built program", "manager", "\x7fELF\x00",
			`solutions/01-shop/manager:1: this is neither text nor an image, which a lab can't have: ` +
				`delete it from the solution`,
		},
		{
			"a marker in a doc comment", "doc.go", "package main\n\n//lab:begin doc\n// X is.\nfunc X() {}\n\n//lab:end\n",
			`solutions/01-shop/doc.go:3: gofmt moves a marker within a doc comment: ` +
				`put an empty line between the marker and the comment`,
		},
		{
			"an unbalanced region", "other.yaml", "#lab:end\n",
			`solutions/01-shop/other.yaml:1: lab:end without a lab:begin before it`,
		},
		{
			"a replacement that is not Go", "doc.go",
			"package main\n\n//lab:begin doc\nvar X = 1\n\n//lab:else\n// var X = = 1\n//lab:end\n",
			`the skeleton of solutions/01-shop/doc.go is not Go`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, _ := repository(t, "shop.txtar")
			write(t, filepath.Join(dir, "solutions/01-shop", test.file), test.content)
			err := Generator{Root: dir, ControllerGen: nothing}.Generate(t.Context(), "01-shop", t.TempDir())
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error\n  %v\nwant\n  %s", err, test.want)
			}
		})
	}
}

func TestSymbolicLinkInSolutionIsRefused(t *testing.T) {
	t.Parallel()
	dir, _ := repository(t, "shop.txtar")
	if err := os.Symlink("main.go", filepath.Join(dir, "solutions/01-shop/other.go")); err != nil {
		t.Fatal(err)
	}
	_, err := Regions(dir, "01-shop")
	if err == nil || !strings.HasPrefix(err.Error(), "solutions/01-shop/other.go:1: this is not a regular file") {
		t.Errorf("Regions() error = %v", err)
	}
}

func TestRegionsListsTheTasks(t *testing.T) {
	t.Parallel()
	dir, _ := repository(t, "shop.txtar")
	got, err := Regions(dir, "01-shop")
	if err != nil {
		t.Fatal(err)
	}
	want := []Region{
		{Name: "grade", File: "Makefile", Begin: 1, Else: 4, End: 7},
		{Name: "shout", File: "main.go", Begin: 14, Else: 16, End: 19},
		{Name: "close", File: "main.go", Begin: 24, End: 29},
		{Name: "price", File: "price/price.go", Begin: 7, Else: 13, End: 18},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Update follows the solution of a tracked lab, until it would overwrite a student's work.
func TestUpdate(t *testing.T) {
	t.Parallel()
	dir, want := repository(t, "shop.txtar")
	commit(t, dir)
	generator := Generator{Root: dir, ControllerGen: nothing}
	lab := filepath.Join(dir, "labs/01-shop")

	changed, err := generator.Update(t.Context(), "01-shop")
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) != len(want) {
		t.Errorf("changed %v, want all %d files", changed, len(want))
	}
	if diff := cmp.Diff(want, contents(t, lab)); diff != "" {
		t.Errorf("lab (-want +got):\n%s", diff)
	}

	// The lab is not committed, but Update wrote it: a maintainer edits the solution again and again.
	write(t, filepath.Join(dir, "solutions/01-shop/PROJECT"), "repo: other\n")
	changed, err = generator.Update(t.Context(), "01-shop")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"labs/01-shop/PROJECT"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	changed, err = generator.Update(t.Context(), "01-shop")
	if err != nil || len(changed) > 0 {
		t.Errorf("the second update changed %v, error %v; want nothing to do", changed, err)
	}

	// Update keeps a student's edit and a student's file. Ignored build output does not block it.
	commit(t, dir)
	write(t, filepath.Join(lab, "bin/manager"), "built")
	write(t, filepath.Join(lab, "sub/bin.log"), "ignored")
	write(t, filepath.Join(lab, "main.go"), "package main // my work\n")
	write(t, filepath.Join(lab, "notes.txt"), "my notes")
	before := contents(t, lab)
	_, err = generator.Update(t.Context(), "01-shop")
	const refusal = "labs/01-shop has changes that are not committed and would be lost: " +
		"commit them, or run `make reset-1`, " +
		"which keeps a copy:\n  labs/01-shop/main.go\n  labs/01-shop/notes.txt"
	if err == nil || err.Error() != refusal {
		t.Errorf("error\n  %v\nwant\n  %s", err, refusal)
	}
	if diff := cmp.Diff(before, contents(t, lab)); diff != "" {
		t.Errorf("lab after the refusal (-want +got):\n%s", diff)
	}

	// Git has the work once it is committed.
	commit(t, dir)
	if _, err := generator.Update(t.Context(), "01-shop"); err != nil {
		t.Fatal(err)
	}
	want["PROJECT"], want["sub/bin.log"] = "repo: other\n", "ignored"
	if diff := cmp.Diff(want, contents(t, lab)); diff != "" {
		t.Errorf("lab (-want +got):\n%s", diff)
	}
}

func TestResetKeepsPreviousWork(t *testing.T) {
	t.Parallel()
	dir, want := repository(t, "shop.txtar")
	generator := Generator{Root: dir, ControllerGen: nothing}
	lab := filepath.Join(dir, "labs/01-shop")

	work := []map[string]string{{"main.go": "first", "sub/notes.txt": "notes"}, {"main.go": "second"}}
	var kept []string
	for _, files := range work {
		for name, content := range files {
			write(t, filepath.Join(lab, name), content)
		}
		where, err := generator.Reset(t.Context(), "01-shop")
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, where)
		if diff := cmp.Diff(want, contents(t, lab)); diff != "" {
			t.Errorf("lab after the reset (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(work[0], contents(t, kept[0])); diff != "" {
		t.Errorf("%s (-want +got):\n%s", kept[0], diff)
	}
	if got := contents(t, kept[1])["main.go"]; got != "second" {
		t.Errorf("%s has main.go %q, want the second work", kept[1], got)
	}

	where, err := generator.Reset(t.Context(), "01-shop")
	if err != nil || where != "" {
		t.Errorf("reset of an untouched lab: kept %q, error %v; want nothing to keep", where, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "out/kept"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Errorf("out/kept has %v, want the two kept works and nothing else", entries)
	}
}

func TestResetOfMissingLab(t *testing.T) {
	t.Parallel()
	dir, want := repository(t, "shop.txtar")
	kept, err := Generator{Root: dir, ControllerGen: nothing}.Reset(t.Context(), "01-shop")
	if err != nil || kept != "" {
		t.Errorf("kept %q, error %v; want nothing to keep", kept, err)
	}
	if diff := cmp.Diff(want, contents(t, filepath.Join(dir, "labs/01-shop"))); diff != "" {
		t.Errorf("lab (-want +got):\n%s", diff)
	}
}

func TestResetCleansUpAfterKilledReset(t *testing.T) {
	t.Parallel()
	dir, _ := repository(t, "shop.txtar")
	gone := exec.CommandContext(t.Context(), "true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "out", "kept", fmt.Sprintf(".fresh-%d-1", gone.Process.Pid), "main.go"), "generated")
	if _, err := (Generator{Root: dir, ControllerGen: nothing}).Reset(t.Context(), "01-shop"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "out", "kept")); err != nil || len(left) > 0 {
		t.Errorf("left in out/kept: %v, error %v", left, err)
	}
}

func TestResetOfBrokenSolutionChangesNothing(t *testing.T) {
	t.Parallel()
	dir, _ := repository(t, "shop.txtar")
	write(t, filepath.Join(dir, "solutions/01-shop/broken.yaml"), "#lab:end\n")
	write(t, filepath.Join(dir, "labs/01-shop/main.go"), "mine")
	if _, err := (Generator{Root: dir, ControllerGen: nothing}).Reset(t.Context(), "01-shop"); err == nil {
		t.Error("no error")
	}
	if diff := cmp.Diff(map[string]string{"main.go": "mine"},
		contents(t, filepath.Join(dir, "labs/01-shop"))); diff != "" {
		t.Errorf("lab (-want +got):\n%s", diff)
	}
}

// controllerGen builds the pinned controller-gen.
func controllerGen(t *testing.T) string {
	t.Helper()
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	target := gobuild.Target{
		Package: "sigs.k8s.io/controller-tools/cmd/controller-gen",
		Module:  filepath.Join(absolute, "scripts", "checkout", "tools"),
		Output:  filepath.Join(absolute, ".cache", "bin", "controller-gen"),
	}
	if err := target.Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return target.Output
}

// Every solution of the course has a skeleton that compiles, passes vet, is formatted, and describes the tasks.
func TestSkeletonsCompileAndVet(t *testing.T) {
	t.Parallel()
	solutions, err := filepath.Glob(root + "/solutions/*/go.mod")
	if err != nil || len(solutions) == 0 {
		t.Fatalf("solutions %v, error %v", solutions, err)
	}
	generator := Generator{Root: root, ControllerGen: controllerGen(t)}
	labOf := func(solution string) string { return filepath.Base(filepath.Dir(solution)) }
	for _, solution := range longtest.First(solutions) {
		lab := labOf(solution)
		t.Run(lab, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := generator.Generate(t.Context(), lab, dir); err != nil {
				t.Fatal(err)
			}
			run(t, dir, "go", "vet", "-trimpath", "./...")
			tasks := 0
			for name, content := range contents(t, dir) {
				tasks += strings.Count(content, "TODO(lab)")
				if strings.Contains(content, "lab:begin") || strings.Contains(content, solutionsPath) {
					t.Errorf("%s still has a marker or the solution's module path", name)
				}
				if path.Ext(name) != ".go" {
					continue
				}
				formatted, err := format.Source([]byte(content))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(formatted), content); diff != "" {
					t.Errorf("%s is not formatted (-want +got):\n%s", name, diff)
				}
			}
			if tasks == 0 {
				t.Error("the skeleton has no TODO(lab)")
			}
		})
	}
}

// A fresh machine has none of the modules that go mod tidy reads.
func TestGenerateOutsideModule(t *testing.T) {
	out, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	generator := Generator{Root: root, ControllerGen: controllerGen(t)}
	proxy := "file://" + filepath.Join(gobuild.ModuleCache(), "cache", "download")
	modules := t.TempDir()
	// The go command makes the module cache read-only.
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", modules).Run() })
	t.Setenv("GOMODCACHE", modules)
	t.Setenv("GOPROXY", proxy+","+strings.TrimSpace(string(out)))
	dir := t.TempDir()
	if err := generator.Generate(t.Context(), "02-reconciler", dir); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(root, "labs", "02-reconciler", "go.mod"))
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("go.mod differs from the lab's: %v\n%s", err, have)
	}
}
