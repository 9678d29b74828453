// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// isBootstrap is the variable that makes this test binary the command.
const isBootstrap = "OPERATOR_LABS_TEST_IS_BOOTSTRAP"

func TestMain(m *testing.M) {
	if os.Getenv(isBootstrap) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Before it compiles anything, the command prints how much disk space the build needs. There is no source to compile
// here, so it always fails.
func TestFirstBuildPrintsDiskSpace(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const needs = "he first build takes up to 8 GB of disk with Go's caches, of which it gives 3 GB back, " +
		"and this folder's disk has "
	for _, test := range []struct{ name, prepare, command, first string }{
		{"enough", "mount -t tmpfs -o size=20g none .", "lab", "T" + needs + "21.5 GB free.\n"},
		{"Go's caches may be elsewhere", "mount -t tmpfs -o size=4g none .", "lab", "T" + needs + "4.3 GB free.\n"},
		{
			"too little", "mount -t tmpfs -o size=2g none .", "lab",
			"t" + needs + "2.1 GB free: free some space, or clone onto another disk\n",
		},
		{
			"everything is built",
			"mkdir -p .cache/controlplane && touch .cache/controlplane/controlplane && " +
				"mount -t tmpfs -o size=2g none .cache/bin",
			"lab", "",
		},
		{"prebuilt programs", "mount -t tmpfs -o size=2g none . && export OPERATOR_LABS_PROGRAMS=missing.tar", "lab", ""},
		{"a cluster in Docker", "mount -t tmpfs -o size=2g none .", "cluster", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, ".cache", "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			c := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
				test.prepare+` && cd "$PWD" && exec "$0" "$1"`, program, test.command)
			c.Dir, c.Env = dir, append(os.Environ(), isBootstrap+"=1", "OPERATOR_LABS_PROGRAMS=none")
			out, err := c.CombinedOutput()
			output := string(out)
			if strings.Contains(output, "unshare") && os.Getenv("OPERATOR_LABS_NAMESPACES") != "required" {
				t.Skipf("no user namespace can be made here, see CI, which sets OPERATOR_LABS_NAMESPACES=required: %s", output)
			}
			if err == nil || !strings.HasPrefix(output, test.first) ||
				strings.Contains(output, needs) != strings.Contains(test.first, needs) {
				t.Errorf("got output %q (%v), want %q", output, err, test.first)
			}
		})
	}
}

// Debian's own Go may be years old, and a new user has often installed it first.
func TestMakePrintsRequiredGo(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("make")
	if err != nil {
		t.Skip("make is not installed")
	}
	for _, test := range []struct{ name, script, want string }{
		{
			"an old Go", "#!/bin/sh\n[ \"$1 $2\" = 'env GOVERSION' ] && echo go1.19.8\n",
			"Go 1.26 or newer is needed, and this is go1.19.8: install it from go.dev/dl.\n",
		},
		{
			"a version manager without a version", "#!/bin/sh\necho 'No version is set for command go' >&2\nexit 126\n",
			"No version is set for command go\nGo 1.26 or newer is needed, and this is none: install it from go.dev/dl.\n",
		},
		{"none", "", "Go 1.26 or newer is needed, and no go is on PATH: install it from go.dev/dl.\n"},
		// It gets as far as compiling the bootstrap.
		{
			"this one", "#!/bin/sh\n[ \"$1 $2\" = 'env GOVERSION' ] && echo go1.26.0 && exit\necho \"compiling: $*\"; exit 3\n",
			"compiling: build -C scripts ",
		},
		{
			"a development version of Go",
			"#!/bin/sh\n[ \"$1 $2\" = 'env GOVERSION' ] && echo 'devel go1.27-0a1b2c' && exit\necho \"compiling: $*\"; exit 3\n",
			"compiling: build -C scripts ",
		},
		{
			"a newer Go",
			"#!/bin/sh\n[ \"$1 $2\" = 'env GOVERSION' ] && echo go1.101 && exit\necho \"compiling: $*\"; exit 3\n",
			"compiling: build -C scripts ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, bin := t.TempDir(), t.TempDir()
			for _, name := range []string{"Makefile", "go.work"} {
				content, err := os.ReadFile(filepath.Join("..", "..", "..", name))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if test.script != "" {
				if err := os.WriteFile(filepath.Join(bin, "go"), []byte(test.script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"sh", "sed", "awk", "find"} {
				found, err := exec.LookPath(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(found, filepath.Join(bin, name)); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.Command(program, "labs")
			command.Dir, command.Env = dir, []string{"PATH=" + bin}
			out, err := command.CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.want) {
				t.Errorf("want output with %q, got\n%s", test.want, out)
			}
		})
	}
}

// FLAGS= is passed to the command, from the root and from the folder of a lab. An unknown flag is an error, and is not
// ignored. The test replaces the command with a program that prints its arguments.
func TestMakePassesFlagsOn(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("make")
	if err != nil {
		t.Fatalf("make is not installed: %v", err)
	}
	dir := t.TempDir()
	for to, from := range map[string]string{
		"Makefile": "Makefile", "go.work": "go.work", "labs/02-reconciler/Makefile": "labs/02-reconciler/Makefile",
	} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(from)))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o700), os.WriteFile(filepath.Join(dir, to), content, 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
	lab := filepath.Join(dir, ".cache", "bin", "lab")
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(lab), 0o700),
		os.WriteFile(lab, []byte("#!/bin/sh\necho \"lab $*\"\n"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	inLab := filepath.Join(dir, "labs", "02-reconciler")
	for _, test := range []struct {
		name, dir, args, want string
	}{
		{"grade", dir, "lab-10 FLAGS=--pdo", "lab grade 10 --pdo\n"},
		{"grade on a cluster", dir, "lab-10 CLUSTER=kind FLAGS=--pdo", "lab grade 10 --cluster kind --pdo\n"},
		{"grade all on a cluster", dir, "grade CLUSTER=kind", "lab grade --all --cluster kind\n"},
		{"a part of the solution", dir, "solution-10 STEP=3", "lab grade 10 --solution --step 3\n"},
		{"watch has no such flags", dir, "watch-2 STEP=3 CLUSTER=kind", "lab watch 2 --step 3 --cluster kind\n"},
		{"several flags", dir, "watch-2 FLAGS=--part%--pdo", "lab watch 2 --part --pdo\n"},
		{"no number", dir, "up FLAGS=--pdo", "lab up --pdo\n"},
		{"grade in the lab's folder", inLab, "grade FLAGS=--pdo", "lab grade 2 --pdo\n"},
		{"run in the lab's folder", inLab, "run FLAGS=--pdo", "lab run --dir . --pdo\n"},
		{"a command of the root in the lab's folder", inLab, "lab-2 FLAGS=--pdo", "lab grade 2 --pdo\n"},
		{"none", dir, "lab-10", "lab grade 10\n"},
		{
			"a lab without a number", dir, "lab-",
			"make: there is no target lab-: `make help` lists all targets\n",
		},
		{
			"a command in the lab's folder", inLab, "hint-",
			"make: there is no target hint-: `make help` lists all targets\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var args []string
			for arg := range strings.FieldsSeq(test.args) {
				args = append(args, strings.ReplaceAll(arg, "%", " "))
			}
			command := exec.Command(program, args...)
			// Some users compile with a variable of this name.
			command.Dir, command.Env = test.dir, []string{"PATH=" + os.Getenv("PATH"), "FLAGS=-O2"}
			out, _ := command.CombinedOutput() // without a lab, it fails
			if output := strings.ReplaceAll(string(out), "  ", " "); !strings.Contains(output, test.want) ||
				strings.Contains(output, "-O2") {
				t.Errorf("want output with %q, got\n%s", test.want, output)
			}
		})
	}
}
