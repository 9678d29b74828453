// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
)

// makeIn runs make in a project below a checkout, with the lab command of these tests.
func makeIn(t *testing.T, project string, targets ...string) (output string, err error) {
	t.Helper()
	c, _ := command(t, project)
	if c.Path, err = exec.LookPath("make"); err != nil {
		t.Fatal(err)
	}
	c.Args = append([]string{"make", "LAB=" + lab}, targets...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// The commands that `lab new` prints work: the tests of a new project pass, with the tools of the checkout.
func TestNewProjectPassesItsTests(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := complete(t)
	project := filepath.Join(root, "hooks")
	out := wantDone(t, root, "new", "hooks", "--domain=lva.io", "--group=apps", "--version=v1", "--kind=Shop", "--webhook")
	if !strings.HasPrefix(out, "hooks has ") ||
		!strings.Contains(out, "an operator for the kind Shop of apps.lva.io/v1. Next:\n  cd hooks\n") {
		t.Errorf("got output\n%s", out)
	}
	output, err := makeIn(t, project, "test")
	if err != nil {
		t.Errorf("make test: %v\n%s", err, output)
	}
	for _, tested := range []string{"hooks/internal/controller", "hooks/internal/webhook/v1"} {
		if !strings.Contains(output, "ok  \tlva.io/"+tested+"\t") {
			t.Errorf("make test did not test %s:\n%s", tested, output)
		}
	}
}

func TestNewProjectErrors(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := bare(t)
	for _, test := range []struct{ args, want string }{
		{"new", "`lab new` needs one folder, as in `lab new webapp --domain"},
		{"new a b", "`lab new` needs one folder"},
		{"new webapp --group apps --version v1 --kind Shop", "--domain is missing"},
		{"new webapp --domain lva.io --group apps --version v1 --kind shop", `--kind "shop" can't be a kind`},
		{"new labs --domain lva.io --group apps --version v1 --kind Shop", "is not empty"},
		{"new webapp --domain lva.io --grupe apps", "there is no flag --grupe"},
	} {
		got := run(t, root, strings.Fields(test.args)...)
		if got.code == 0 || !strings.Contains(got.stderr, test.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("lab %s: got exit code %d, %q; want one sentence with %q", test.args, got.code, got.stderr, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "webapp")); err == nil {
		t.Error("a refused project was created")
	}
}
