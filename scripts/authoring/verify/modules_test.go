// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	goversion "golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"lva.io/operators/scripts/checkout/command"
)

// The test serves the versions from a proxy of its own, so that it needs no network. It sets environment variables, so
// it is not parallel.
func TestDivergedModulesAreRaised(t *testing.T) {
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
func TestImageProgramHasItsOwnVersions(t *testing.T) {
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

// runIn runs the go command. The command may write go.sum.
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
