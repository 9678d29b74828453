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

// entersVariable makes the test program enter a scope with its value as the name, and report what it finds there.
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
	g, err := Own(name)
	if err != nil {
		fmt.Println(err)
		os.Exit(0)
	}
	passed, err := os.ReadFile(filepath.Join(g.Dir, "cgroup.subtree_control"))
	own, ownErr := os.ReadFile("/proc/self/cgroup")
	if got := strings.Join(g.Controllers, " "); got != strings.TrimSpace(string(passed)) {
		err = errors.Join(err, fmt.Errorf("the group reports the controllers %q", got))
	}
	fmt.Println("passed", string(passed), string(own),
		errors.Join(err, ownErr, os.Mkdir(filepath.Join(g.Dir, "container"), 0o755)))
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
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}

func TestEnterUsesSystemdScope(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root does not use a systemd scope")
	}
	output := enter(t)
	if strings.Contains(output, ErrNone.Error()) {
		t.Skip(output)
	}
	// All versions of systemd delegate memory.
	for _, want := range []string{"passed", "memory", ".scope/node\n", "<nil>"} {
		if !strings.Contains(output, want) {
			t.Errorf("output %q does not contain %q", output, want)
		}
	}
}

func TestEnterWithoutSystemd(t *testing.T) {
	if output := enter(t, "PATH="+t.TempDir()); !strings.Contains(output, ErrNone.Error()) {
		t.Errorf("output = %q, want ErrNone", output)
	}
}

// The files are ordinary ones, because systemd decides what it delegates. Before version 252, it delegates memory and
// pids.
func TestDivideEnablesDelegatedControllers(t *testing.T) {
	for delegated, want := range map[string]string{
		"cpuset cpu io memory hugetlb pids rdma misc\n": "cpu memory pids",
		"memory pids\n": "memory pids",
		"cpu pids\n":    "cpu pids",
		"pids\n":        "",
		"\n":            "",
	} {
		dir := t.TempDir()
		for file, content := range map[string]string{"cgroup.controllers": delegated, "cgroup.subtree_control": ""} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g, err := divide(dir)
		if want == "" {
			if !errors.Is(err, ErrNone) {
				t.Errorf("divide() with controllers %q = %+v, %v; want ErrNone", delegated, g, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		passed, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err != nil || string(passed) != "+"+strings.ReplaceAll(want, " ", " +") {
			t.Errorf("with %q delegated, enabled controllers = %q, %v; want %s", delegated, passed, err, want)
		}
		for _, controller := range []string{"cpu", "memory"} {
			if g.Limits(controller) != strings.Contains(want, controller) {
				t.Errorf("with %q delegated, Limits(%q) = %t", delegated, controller, g.Limits(controller))
			}
		}
	}
	if (*Group)(nil).Limits("memory") {
		t.Error("Limits() of a nil group = true, want false")
	}
}
