// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission/samples"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, files, main, wrong string }{
		{"of kubebuilder v4", samples.Module + "-- cmd/main.go --\n" + samples.Program, "./cmd", ""},
		{"of kubebuilder v3", samples.Module + "-- main.go --\n" + samples.Program, "./", ""},
		{
			"with a library in the root",
			samples.Module + "-- cmd/main.go --\n" + samples.Program + "-- icecream.go --\npackage icecream\n",
			"./cmd", "",
		},
		{
			"with a library in cmd",
			samples.Module + "-- cmd/cmd.go --\npackage cmd\n-- main.go --\n" + samples.Program,
			"./", "",
		},
		{
			"with a mistake in a function, which the compiler reports",
			samples.Module + "-- cmd/main.go --\npackage main\n\nfunc main() { return 1 + }\n",
			"./cmd", "",
		},
		{
			"with tests and another system's files beside main",
			samples.Module + "-- cmd/main.go --\n" + samples.Program +
				"-- cmd/main_test.go --\npackage main_test\n-- cmd/x_plan9.go --\npackage nine\n",
			"./cmd", "",
		},
		{
			"with a mistake in the package clause",
			samples.Module + "-- cmd/main.go --\nmain\n",
			"", "the program can't be read: ",
		},
		{
			"with two packages in one folder",
			samples.Module + "-- cmd/main.go --\n" + samples.Program + "-- cmd/shop.go --\npackage shop\n",
			"", "the program can't be read: found packages main (main.go) and shop (shop.go)",
		},
		{
			"without a program", samples.Module + "-- shop/shop.go --\npackage shop\n",
			"", "there is no program: package main must be in cmd/ or in the module's root",
		},
		{
			"with a build tag before main",
			samples.Module + "-- cmd/main.go --\n//go:build production\n\n" + samples.Program +
				"-- Makefile --\nbuild:\n\tgo build --tags='production' ./cmd\n", "",
			"there is no program: package main must be in cmd/ or in the module's root, as kubebuilder lays it out; " +
				"if it is elsewhere, name its folder, as in `--main ./cmd/manager`; " +
				"cmd/main.go: this file is left out, because grading sets no build tags: remove its //go:build line",
		},
		{
			"without a go.mod",
			"-- main.go --\n" + samples.Program,
			"", "has no go.mod: name the folder of a Go module of kubebuilder's layout",
		},
		{
			"with an invalid go.mod",
			"-- go.mod --\nmodule x\nrequire (\n",
			"", "the submission's go.mod can't be read: go.mod:",
		},
		{"with a go.mod without a name", "-- go.mod --\ngo 1.26\n", "", "the submission's go.mod names no module"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Open(samples.Lay(t, test.files), "")
			switch {
			case test.wrong != "":
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("want an error that contains %q, got %v", test.wrong, err)
				}
			case err != nil:
				t.Error(err)
			case got.Main != test.main || got.Module != "example.com/icecream" || got.Go != "1.26" || !filepath.IsAbs(got.Dir):
				t.Errorf("Open() = %+v", got)
			}
		})
	}
	for _, name := range []string{"submission_test.go", "no-such-folder"} {
		if _, err := Open(name, ""); err == nil ||
			!strings.Contains(err.Error(), "is not a folder: name the folder that holds the submission's go.mod") {
			t.Errorf("Open(%s) error = %v, want that it is not a folder", name, err)
		}
	}
	got, err := Open(filepath.Join("..", "grade", "testdata", "operators", "icecream-v0.14"), "")
	if err != nil || got.ControllerRuntime != "v0.14.1" {
		t.Errorf("Open() of an operator of 2023 = %+v, error = %v", got, err)
	}
}

func builder(t *testing.T, dir string) *Builder {
	t.Helper()
	opened, err := Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scope.Close(); err != nil {
			t.Error(err)
		}
	})
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	b := &Builder{Submission: opened, Scope: scope}
	if b.ControllerGen, err = repo.ControllerGen(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// problemOf returns err as a problem of the submission.
func problemOf(t *testing.T, err error) *Problem {
	t.Helper()
	problem, ok := errors.AsType[*Problem](err)
	if !ok {
		t.Fatalf("got error %v, want a problem of the submission", err)
	}
	return problem
}

func TestBuildIgnoresTheUsersGoEnvironment(t *testing.T) {
	// Each of these variables alone breaks a build, or changes the program.
	t.Setenv("GOFLAGS", "-mod=mod -tags=broken")
	t.Setenv("GOWORK", "/nowhere/go.work")
	t.Setenv("GO111MODULE", "off")
	t.Setenv("GOOS", "plan9")
	t.Setenv("GOARCH", "386")
	t.Setenv("CGO_ENABLED", "1")
	t.Setenv("GOPROXY", "https://127.0.0.1:1")
	b := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+
		"-- cmd/tagged.go --\n//go:build broken\n\npackage main\n\nvar x int = \"\"\n"+
		"-- cmd/c.go --\n//go:build cgo\n\npackage main\n\nvar y int = \"\"\n"))
	if err := b.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), b.Program()).CombinedOutput(); err != nil {
		t.Errorf("the program failed: %v: %s", err, output)
	}
}

// A submission in a repository that git refuses to read (another user's, a broken one) builds all the same.
func TestBuildDoesNotRunGit(t *testing.T) {
	t.Parallel()
	b := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+"-- .git/HEAD --\nnonsense\n"))
	if err := b.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestBuildDownloadsNothing(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("GOMODCACHE", cache)
	b := builder(t, filepath.Join("..", "..", "..", "solutions", "01-icecream"))
	problem := problemOf(t, b.Build(t.Context()))
	if !strings.Contains(problem.Reason, "grade it with --fetch") || len(problem.Diagnostics) == 0 {
		t.Errorf("Build() problem = %v", problem)
	}
	if _, err := b.Generate(t.Context()); err != nil {
		t.Errorf("Generate() error = %v, want the committed manifests", err)
	}
	_ = filepath.WalkDir(cache, func(path string, entry fs.DirEntry, _ error) error {
		if !entry.IsDir() && filepath.Ext(path) != ".lock" {
			t.Errorf("%s was downloaded", path)
		}
		return nil
	})
}

func TestBuildWithACache(t *testing.T) {
	t.Parallel()
	dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program)
	cache := filepath.Join(t.TempDir(), "cache")
	for _, change := range []string{"", "", "\nvar changed = 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, "cmd", "changed.go"), []byte("package main\n"+change), 0o600); err != nil {
			t.Fatal(err)
		}
		b := builder(t, dir)
		b.Cache = cache
		if err := b.Build(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(b.Program()); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cmd", "changed.go"),
		[]byte("package main\n\nvar x int = \"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := builder(t, dir)
	b.Cache = cache
	if err := b.Build(t.Context()); problemOf(t, err).Reason != "it does not compile" {
		t.Error(err)
	}
	if _, err := os.Stat(b.Program()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program of the last build exists although the submission does not compile: %v", err)
	}
}

const (
	roleFile = "-- config/rbac/role.yaml --\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n" +
		"metadata: {name: manager-role}\nrules:\n"
	rule    = "- apiGroups: [demo.lva.io]\n  resources: [icecreams]\n  verbs: [list, watch]\n"
	marker  = "\n// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list;watch\n"
	crdFile = "-- config/crd/bases/x.yaml --\nkind: CustomResourceDefinition\nmetadata: {name: committed}\n"
)

func TestGenerateRoles(t *testing.T) {
	t.Parallel()
	main := samples.Module + "-- cmd/main.go --\n" + samples.Program
	const stale = "config/rbac/role.yaml is not what the +kubebuilder:rbac markers say: " +
		"run `make manifests` (the markers were graded)"
	for _, test := range []struct{ name, files, notice, rights string }{
		{"markers alone", main + marker, "", "list demo.lva.io icecreams , watch demo.lva.io icecreams "},
		{"a role alone", main + roleFile + rule, "", "list demo.lva.io icecreams , watch demo.lva.io icecreams "},
		{"neither", main, "", ""},
		{
			"both, and they agree", main + marker + roleFile + rule,
			"", "list demo.lva.io icecreams , watch demo.lva.io icecreams ",
		},
		{
			"they agree, grouped otherwise",
			main + marker + roleFile +
				strings.Replace(rule, "list, watch", "watch", 1) + strings.Replace(rule, "list, watch", "list", 1),
			"", "list demo.lva.io icecreams , watch demo.lva.io icecreams ",
		},
		{
			"the role is stale", main + marker + roleFile + strings.Replace(rule, "list, ", "", 1),
			stale, "list demo.lva.io icecreams , watch demo.lva.io icecreams ",
		},
		{
			"the role allows more than the markers say",
			main + marker + roleFile + strings.Replace(rule, "list", "list, delete", 1),
			stale, "list demo.lva.io icecreams , watch demo.lva.io icecreams ",
		},
		{
			"a role of one namespace", main + strings.Replace(marker, "rbac:", "rbac:namespace=shop,", 1), "",
			"list demo.lva.io icecreams shop, watch demo.lva.io icecreams shop",
		},
		{
			"a role of one namespace where there was one of all",
			main + strings.Replace(marker, "rbac:", "rbac:namespace=shop,", 1) + roleFile + rule, stale,
			"list demo.lva.io icecreams shop, watch demo.lva.io icecreams shop",
		},
		{
			"invalid YAML", main + marker + roleFile + "}",
			"config/ holds YAML that can't be read: config/rbac/role.yaml: ",
			"list demo.lva.io icecreams , watch demo.lva.io icecreams ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := builder(t, samples.Lay(t, test.files)).Generate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if notices := strings.Join(got.Notices, "\n"); !strings.HasPrefix(notices, test.notice) ||
				(test.notice == "" && notices != "") {
				t.Errorf("got notices %q, want %q", notices, test.notice)
			}
			if rights := strings.Join(got.rights(), ", "); rights != test.rights {
				t.Errorf("got permissions %q, want %q", rights, test.rights)
			}
		})
	}
}

func copySolution(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "..", "solutions", "01-icecream"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func edit(t *testing.T, file, find, replace string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(content), find) {
		t.Fatalf("%s does not contain %q: %v", file, find, err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(content), find, replace, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestGenerateDefinitions(t *testing.T) {
	t.Parallel()
	const definition = "config/crd/bases/demo.lva.io_icecreams.yaml"
	const stale = "config/crd/bases is older than the types: run `make manifests` (the types were graded)"
	for _, test := range []struct{ name, find, replace, notice string }{
		{
			"the committed definition matches the types",
			"kind: CustomResourceDefinition", "kind: CustomResourceDefinition", "",
		},
		{"it is stale", "soldOut:", "soldout:", stale},
		{
			"made by another controller-gen: unknown whether it is stale",
			"controller-gen.kubebuilder.io/version: v", "controller-gen.kubebuilder.io/version: v9", "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := copySolution(t)
			edit(t, filepath.Join(dir, definition), test.find, test.replace)
			if test.notice == "" && test.find != test.replace {
				edit(t, filepath.Join(dir, definition), "soldOut:", "soldout:")
			}
			got, err := builder(t, dir).Generate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if notices := strings.Join(got.Notices, "\n"); notices != test.notice || len(got.Definitions) != 1 {
				t.Errorf("got %d definitions and notices %q", len(got.Definitions), notices)
			}
		})
	}
	t.Run("markers that give nothing", func(t *testing.T) {
		t.Parallel()
		got, err := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+crdFile)).
			Generate(t.Context())
		if err != nil || len(got.Definitions) != 1 || got.Definitions[0].GetName() != "committed" || len(got.Notices) != 0 {
			t.Errorf("Generate() = %+v, error = %v, want the committed definition", got, err)
		}
	})
	t.Run("markers that can't be read", func(t *testing.T) {
		t.Parallel()
		wrong := samples.Module + "-- cmd/main.go --\n" + samples.Program + "\n// +kubebuilder:rbac:verb=list\n"
		got, err := builder(t, samples.Lay(t, wrong+crdFile)).Generate(t.Context())
		if err != nil || len(got.Definitions) != 1 || len(got.Notices) != 1 ||
			!strings.HasPrefix(got.Notices[0], `controller-gen fails on the markers, so what is committed in config/ was used: `+
				`cmd/main.go:5:1: unknown argument "verb"`) {
			t.Errorf("Generate() = %+v, error = %v, want the committed definition and a notice", got, err)
		}
		_, err = builder(t, samples.Lay(t, wrong)).Generate(t.Context())
		problem := problemOf(t, err)
		if !slices.ContainsFunc(problem.Diagnostics, func(d report.Diagnostic) bool {
			return d.File == "cmd/main.go" && d.Line == 5 && strings.HasPrefix(d.Message, `unknown argument "verb"`)
		}) {
			t.Errorf("got diagnostics %+v", problem.Diagnostics)
		}
	})
	t.Run("more than a megabyte", func(t *testing.T) {
		t.Parallel()
		dir := copySolution(t)
		const types = "api/v1/icecream_types.go"
		edit(t, filepath.Join(dir, types), "type IcecreamSpec struct {", "type IcecreamSpec struct {\n"+
			strings.Repeat("\t// "+strings.Repeat("icecream ", 10)+"\n", 15_000)+
			"\tAlphabet string `json:\"alphabet,omitempty\"`\n")
		got, err := builder(t, dir).Generate(t.Context())
		if err != nil || len(got.Definitions) != 1 {
			t.Fatalf("Generate() = %+v, error = %v", got, err)
		}
		versions, _, _ := unstructured.NestedSlice(got.Definitions[0].Object, "spec", "versions")
		version := versions[0].(map[string]any)
		_, read, _ := unstructured.NestedMap(version,
			"schema", "openAPIV3Schema", "properties", "spec", "properties", "alphabet")
		if _, whole, _ := unstructured.NestedMap(version, "subresources", "status"); !read || !whole {
			t.Errorf("the definition does not match the types, or is truncated; notices: %q", got.Notices)
		}
	})
}
