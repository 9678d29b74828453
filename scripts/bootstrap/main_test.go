// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Debian's own Go may be years old, and is what somebody who starts has installed first.
func TestMakeSaysWhichGoItNeeds(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("make")
	if err != nil {
		t.Skip("make is not installed")
	}
	for _, test := range []struct{ name, script, want string }{
		{"an old one", "#!/bin/sh\n[ \"$1 $2\" = 'env GOVERSION' ] && echo go1.19.8\n", "Go 1.26 or newer is needed, and this is go1.19.8: install it from go.dev/dl.\n"},
		{"none", "", "Go 1.26 or newer is needed, and no go is on PATH: install it from go.dev/dl.\n"},
		// It comes as far as compiling the bootstrap.
		{"this one", "#!/bin/sh\n[ \"$1 $2\" = 'env GOVERSION' ] && echo go1.26.0 && exit\necho \"compiling: $*\"; exit 3\n", "compiling: build -C scripts "},
		{"a newer one", "#!/bin/sh\n[ \"$1 $2\" = 'env GOVERSION' ] && echo go1.101 && exit\necho \"compiling: $*\"; exit 3\n", "compiling: build -C scripts "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, bin := t.TempDir(), t.TempDir()
			for _, name := range []string{"Makefile", "go.work"} {
				content, err := os.ReadFile(filepath.Join("..", "..", name))
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
			for _, name := range []string{"sh", "sed", "sort", "find", "printf"} {
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
				t.Errorf("it must say %q and says\n%s", test.want, out)
			}
		})
	}
}
