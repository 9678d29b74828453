// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"os/exec"
	"testing"

	"lva.io/operators/scripts/checkout"
)

// The lines work whatever the name of the checkout's folder.
func TestShellLinesAreQuoted(t *testing.T) {
	t.Parallel()
	for _, root := range []string{
		"/srv/operator-labs", "/srv/student's work",
		`/tmp/$HOME`, "/tmp/`id`", `/tmp/a"b\c`, "/tmp/two\nlines", "/tmp/*", "",
	} {
		repo := &checkout.Checkout{Root: root}
		script := "PATH=/bin\n" + ShellLines(repo) + `printf '%s\n%s' "$KUBECONFIG" "$PATH"`
		want := repo.Playground().Kubeconfig() + "\n/bin:" + BinDir(repo)
		read, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
		if err != nil || string(read) != want {
			t.Errorf("got %q, want %q: error = %v", read, want, err)
		}
	}
}
