// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lva.io/operators/scripts/grading/submission/samples"
)

// special holds files that can't be committed, so the tests create them. A program that opens one would hang, or read
// without end.
var special = map[string]struct {
	create func(file string) error
	what   string
}{
	"pipe": {func(file string) error { return syscall.Mkfifo(file, 0o600) }, "a named pipe"},
	"link to zero": {
		func(file string) error { return os.Symlink("/dev/zero", file) },
		"outside of the submission's folder",
	},
	"link to stdin": {
		func(file string) error { return os.Symlink("/dev/stdin", file) },
		"outside of the submission's folder",
	},
	"link outside": {
		func(file string) error { return os.Symlink("../../../../../../etc/passwd", file) },
		"outside of the submission's folder",
	},
	"link to itself": {
		func(file string) error { return os.Symlink(filepath.Base(file), file) },
		"a symbolic link to itself",
	},
	"socket": {listen, "a socket"},
	"folder": {func(file string) error { return os.Mkdir(file, 0o700) }, "a folder"},
	"a sparse 100 MB": {func(file string) error {
		return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 100<<20))
	}, "larger than that"},
}

// listen leaves a socket behind. A socket's path is limited to about 100 bytes, so it is created elsewhere and then
// renamed.
func listen(file string) error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	return errors.Join(listener.Close(), os.Rename(filepath.Join(dir, "s"), file))
}

// replace replaces a file by a special one.
func replace(t *testing.T, dir, name, kind string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := special[kind].create(file); err != nil {
		t.Fatal(err)
	}
}

func TestReadFile(t *testing.T) {
	for kind, file := range special {
		t.Run(kind, func(t *testing.T) {
			dir := samples.Lay(t, samples.Module+"-- zombie/answers.yaml --\n")
			replace(t, dir, "zombie/answers.yaml", kind)
			_, err := (&Submission{Dir: dir}).ReadFile("zombie/answers.yaml")
			if wrong, ok := errors.AsType[*FileError](err); !ok ||
				wrong.What != file.what || wrong.Path != "zombie/answers.yaml" {
				t.Errorf("want a FileError for %s, got %v", file.what, err)
			}
		})
	}
	t.Run("a link inside", func(t *testing.T) {
		dir := samples.Lay(t, samples.Module+"-- zombie/mine.yaml --\nzombie: sundae\n")
		if err := os.Symlink("mine.yaml", filepath.Join(dir, "zombie", "answers.yaml")); err != nil {
			t.Fatal(err)
		}
		content, err := (&Submission{Dir: dir}).ReadFile("zombie/answers.yaml")
		if err != nil || string(content) != "zombie: sundae\n" {
			t.Errorf("ReadFile() = %q, error = %v", content, err)
		}
	})
}

// Open reports special files among the sources at once, so that no compiler waits for them.
func TestOpenSpecialFiles(t *testing.T) {
	for _, name := range []string{"go.mod", "go.sum", "cmd/main.go", "cmd/other.go", "api/v1/types.go", "cmd/fast.s"} {
		for kind, file := range special {
			t.Run(name+" is a "+kind, func(t *testing.T) {
				dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+"-- api/v1/doc.go --\npackage v1\n")
				replace(t, dir, name, kind)
				_, err := Open(dir, "")
				folder := kind == "folder" && strings.Contains(name, "/") // one whose name looks like a file's
				switch {
				case folder && name == "cmd/main.go":
					if err == nil || !strings.Contains(err.Error(), "there is no program") {
						t.Errorf("want an error about the missing program, got %v", err)
					}
				case folder:
					if err != nil {
						t.Errorf("Open() error = %v for a folder that the go command ignores", err)
					}
				default:
					if wrong, ok := errors.AsType[*FileError](err); !ok || wrong.What != file.what || wrong.Path != name {
						t.Errorf("want a FileError for %s, got %v", file.what, err)
					}
				}
			})
		}
	}
}

func TestGenerateSpecialFiles(t *testing.T) {
	for kind, file := range special {
		if kind == "folder" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+marker+roleFile+rule)
			replace(t, dir, "config/rbac/role.yaml", kind)
			got, err := builder(t, dir).Generate(t.Context())
			if err != nil ||
				!slices.ContainsFunc(got.Notices, func(notice string) bool { return strings.Contains(notice, file.what) }) {
				t.Errorf("Generate() = %+v, error = %v, want manifests from the markers and a notice about the file", got, err)
			}
		})
	}
}

// The sources are those of this module, as the go command finds them.
func TestSurvey(t *testing.T) {
	t.Parallel()
	dir := samples.Lay(t, samples.Module+"-- main.go --\n"+samples.Program+
		"-- api/v1/types.go --\npackage v1\n-- api/v1/types_test.go --\npackage v1\n"+
		"-- test/e2e/e2e_test.go --\npackage e2e\n"+
		"-- tools/only_plan9.go --\npackage tools\n-- tools/tagged.go --\n//go:build tools\n\npackage tools\n"+
		"-- plugin/go.mod --\nmodule example.com/plugin\n-- plugin/plugin.go --\npackage plugin\n"+
		"-- api/nested/go.mod --\nmodule example.com/nested\n-- api/nested/deep/types.go --\npackage deep\n"+
		"-- vendor/example.com/x/x.go --\npackage x\n-- testdata/x.go --\npackage x\n"+
		"-- _old/x.go --\npackage x\n-- .git/x.go --\npackage x\n")
	if err := os.Symlink("/nowhere", filepath.Join(dir, ".#main.go")); err != nil { // the lock of an editor
		t.Fatal(err)
	}
	opened, err := Open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	b := &Builder{Submission: opened}
	if got, want := b.packages(), []string{"./", "./api/v1"}; !slices.Equal(got, want) {
		t.Errorf("packages() = %q, want %q", got, want)
	}
}

// A folder's name may be in an old encoding. The go command ignores such a folder, and reads the others.
func TestFolderNameThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	dir := samples.Lay(t, program+defaults+"resources: [map.yaml]\n-- config/default/map.yaml --\n"+configMap)
	for _, folder := range []string{"", "cmd", "config", "config/default"} {
		odd := filepath.Join(dir, filepath.FromSlash(folder), "Entw\xfcrfe")
		if err := errors.Join(
			os.Mkdir(odd, 0o700),
			os.WriteFile(filepath.Join(odd, "notes.yaml"), []byte(configMap), 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
	b := builder(t, dir)
	if err := b.Build(t.Context()); err != nil {
		t.Errorf("Build() error = %v", err)
	}
	if _, err := b.Generate(t.Context()); err != nil {
		t.Errorf("Generate() error = %v", err)
	}
	if err := b.layOut(filepath.Join(t.TempDir(), "deploy")); err != nil {
		t.Errorf("layOut() error = %v", err)
	}
	if err := b.Copy(filepath.Join(t.TempDir(), "copy")); err != nil {
		t.Errorf("Copy() error = %v", err)
	}
	if found := b.elsewhere("in %s", "ConfigMap"); found != "in config/default/map.yaml" {
		t.Errorf("elsewhere() = %q", found)
	}
}

// The name of the submission's own folder may be in an old encoding, too.
func TestSubmissionFolderNameThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "Entw\xfcrfe")
	if err := os.Rename(samples.Lay(t, program+marker), dir); err != nil {
		t.Fatal(err)
	}
	b := builder(t, dir)
	if err := b.Build(t.Context()); err != nil {
		t.Errorf("Build() error = %v", err)
	}
	if got, err := b.Generate(t.Context()); err != nil || len(got.ClusterRoles) != 1 {
		t.Errorf("Generate() = %+v, error = %v", got, err)
	}
}

func TestReadFilePaths(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir := filepath.Join(above, "submission")
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(above, filepath.FromSlash(name))
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(content), 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("secret", "s3cret")
	write("submission/config/policy.yaml", "kind: Policy")
	write("submission/empty", "")
	write("submission/full", strings.Repeat("x", fileLimit))
	write("submission/overfull", strings.Repeat("x", fileLimit+1))
	link("config", "inside")
	link(filepath.Join("..", "secret"), "out")
	link(above, "outDir")
	link(filepath.Join(above, "secret"), "absolute")
	link("loop", "loop")
	s := &Submission{Dir: dir}
	for _, test := range []struct {
		path string
		want string // if it can be read
		// missing is true if the file does not exist. refused is a part of the error.
		missing bool
		refused string
	}{
		{path: "config/policy.yaml", want: "kind: Policy"},
		{path: "config/../config/policy.yaml", want: "kind: Policy"},
		{path: "inside/policy.yaml", want: "kind: Policy"},
		{path: "empty"},
		{path: "full", want: strings.Repeat("x", fileLimit)},
		{path: "overfull", refused: "but is larger than that"},
		{path: "config", refused: "but is a folder"},
		{path: "policy.yaml", missing: true},
		{path: "nowhere/policy.yaml", missing: true},
		{path: "../secret", refused: "but is outside of the submission's folder"},
		{path: "config/../../secret", refused: "but is outside of the submission's folder"},
		{path: filepath.Join(above, "secret"), refused: "but is outside of the submission's folder"},
		{path: "out", refused: "but is outside of the submission's folder"},
		{path: "outDir/secret", refused: "but is outside of the submission's folder"},
		{path: "absolute", refused: "but is outside of the submission's folder"},
		{path: "loop", refused: "but is a symbolic link to itself"},
	} {
		content, err := s.ReadFile(test.path)
		switch {
		case test.missing != errors.Is(err, fs.ErrNotExist):
			t.Errorf("%s: want missing %t, error = %v", test.path, test.missing, err)
		case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
			t.Errorf("%s: want an error that contains %q, got %v", test.path, test.refused, err)
		case (err == nil) != (!test.missing && test.refused == ""), !bytes.Equal(content, []byte(test.want)):
			t.Errorf("%s: got %.40q, error = %v", test.path, content, err)
		}
	}
}
