// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"os/exec"
	"testing"
)

func TestAShellReadsAQuotedPathAsItIs(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/srv/operator-labs", "/srv/student's work",
		`/tmp/$HOME`, "/tmp/`id`", `/tmp/a"b\c`, "/tmp/two\nlines", "/tmp/*", "",
	} {
		read, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+Quoted(path)).Output()
		if err != nil || string(read) != path {
			t.Errorf("the shell reads %q as %q: %v", path, read, err)
		}
	}
}
