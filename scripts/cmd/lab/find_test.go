// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// modules creates Go modules. Each has a file with an API group.
func modules(t *testing.T, root string, groups map[string]string) {
	t.Helper()
	for folder, group := range groups {
		dir := filepath.Join(root, filepath.FromSlash(folder))
		if err := errors.Join(
			os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/operator\n"), 0o600),
			os.WriteFile(filepath.Join(dir, "types.go"), []byte("// +groupName="+group+"\npackage v1\n"), 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	root := bare(t)
	const ice, cows = "demo.lva.io", "my.domain"
	for _, test := range []struct {
		name    string
		modules map[string]string
		want    string
	}{
		{"itself", map[string]string{".": ice}, "."},
		{
			"a whole repository",
			map[string]string{"labs/01-icecream": ice, "labs/02-reconciler": ice, "solutions/02-reconciler": ice},
			"labs/02-reconciler",
		},
		{
			"in GitHub's ZIP",
			map[string]string{"operators-main/labs/01-icecream": ice, "operators-main/labs/02-reconciler": ice},
			"operators-main/labs/02-reconciler",
		},
		{"by its API group", map[string]string{"cow": cows, "ice": ice}, "ice"},
	} {
		dir := filepath.Join(t.TempDir(), "submission")
		modules(t, dir, test.modules)
		got := run(t, root, "find", "2", dir)
		if got.code != 0 || got.stdout != filepath.Join(dir, filepath.FromSlash(test.want))+"\n" || got.stderr != "" {
			t.Errorf("%s: exit code %d, %q, %q; want %s", test.name, got.code, got.stdout, got.stderr, test.want)
		}
	}
}

// If nothing can be found, the report gives the reason, as the report of a run does.
func TestFindErrors(t *testing.T) {
	t.Parallel()
	root := bare(t)
	several, other, none := filepath.Join(t.TempDir(), "several"), filepath.Join(t.TempDir(), "other"), t.TempDir()
	modules(t, several, map[string]string{"a": "demo.lva.io", "b": "demo.lva.io"})
	modules(t, other, map[string]string{"labs/01-icecream": "demo.lva.io"})
	for _, test := range []struct {
		args []string
		want string
	}{
		{
			[]string{"2", several},
			"2 Go modules in it can be that of lab 2 (a, b): leave only one of them, or name its folder 02-reconciler",
		},
		{[]string{"2", other}, "none of its Go modules is that of lab 2 (02-reconciler)"},
		{[]string{"2", none}, "there is no go.mod in it: hand in the folder of the lab"},
		{[]string{"2", filepath.Join(none, "missing")}, "missing is not a folder"},
		{[]string{"99", none}, `there is no lab "99"`},
		{[]string{"2"}, "`lab find` needs a lab and a folder, as in `lab find 2 submission`"},
	} {
		got := run(t, root, append([]string{"find"}, test.args...)...)
		if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, test.want) ||
			strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q, %q; want one line with %q", test.args, got.code, got.stdout, got.stderr, test.want)
		}
	}
	if got := run(t, root, "report", "2", "--dir", several); got.code == 0 {
		t.Errorf("an unrequested report was written:\n%s", got.stdout)
	}
	if got := run(t, root, "find", "2", several, "--report"); got.code != 1 || !strings.Contains(got.stderr, "(a, b)") {
		t.Errorf("exit code %d, %q", got.code, got.stderr)
	}
	for _, format := range []string{"gradescope", "markdown", "json", "terminal"} {
		got := run(t, root, "report", "2", "--dir", several, "--format", format)
		if got.code != 0 || !strings.Contains(got.stdout, "can be that of lab 2") {
			t.Errorf("%s: exit code %d\n%s%s", format, got.code, got.stdout, got.stderr)
		}
	}
}
