// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// entersVariable has the tests' program enter a scope of its name, and say what it has there.
const entersVariable = "OPERATOR_LABS_TEST_ENTERS"

func init() {
	name := os.Getenv(entersVariable)
	if name == "" {
		return
	}
	program, err := os.Executable()
	if err == nil {
		err = Enter(name, program, "cgroup.test")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(0)
	}
	g, err := Own(name, Controllers)
	if err != nil {
		fmt.Println(err)
		os.Exit(0)
	}
	passed, err := os.ReadFile(filepath.Join(g.Dir, "cgroup.subtree_control"))
	own, ownErr := os.ReadFile("/proc/self/cgroup")
	fmt.Println("passed", string(passed), string(own), errors.Join(err, ownErr, os.Mkdir(filepath.Join(g.Dir, "container"), 0o755)))
	os.Exit(0)
}

func enter(t *testing.T, environment ...string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(append(os.Environ(), entersVariable+"=test-"+fmt.Sprint(os.Getpid())), environment...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return string(said)
}

func TestAUserOfSystemdHasAGroupToDivide(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root takes no scope")
	}
	said := enter(t)
	if strings.Contains(said, ErrNone.Error()) {
		t.Skip(said)
	}
	for _, want := range append([]string{"passed", ".scope/node\n", "<nil>"}, Controllers...) {
		if !strings.Contains(said, want) {
			t.Errorf("it said %q, without %q", said, want)
		}
	}
}

func TestWithoutSystemdAUserHasNoGroup(t *testing.T) {
	if said := enter(t, "PATH="+t.TempDir()); !strings.Contains(said, ErrNone.Error()) {
		t.Errorf("it said %q", said)
	}
}
