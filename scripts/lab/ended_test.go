// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lva.io/operators/scripts/report"
)

// However a run ends, nothing of it stays; and as long as we live, a report comes of it.
func TestARunThatIsEnded(t *testing.T) {
	t.Parallel()
	const begins, runs = "lab 02-reconciler", "step install the API"
	for _, test := range []struct {
		name, when string
		signal     syscall.Signal
		make       bool // the signal goes to make, whose recipe the command is
		report     bool
	}{
		{"Ctrl-C at the beginning", begins, syscall.SIGINT, false, true},
		{"Ctrl-C while the checks run", runs, syscall.SIGINT, false, true},
		{"kill -9 at the beginning", begins, syscall.SIGKILL, false, false},
		{"kill -9 while the checks run", runs, syscall.SIGKILL, false, false},
		{"kill -9 of make", runs, syscall.SIGKILL, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := complete(t)
			c, temporary := command(t, root, "grade", "2", "--solution")
			if test.make {
				// As make starts a recipe. What follows keeps the shell from becoming the command.
				c.Path, c.Args = "/bin/sh", []string{"sh", "-c", lab + " grade 2 --solution; exit $?"}
				c.Env = append(c.Env, "MAKELEVEL=1")
			}
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			c.Stdout, c.Stderr = write, write
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			write.Close()
			output := bufio.NewReader(read)
			var seen strings.Builder
			for !strings.Contains(seen.String(), test.when) {
				line, err := output.ReadString('\n')
				seen.WriteString(line)
				if err != nil {
					t.Fatalf("it ended before %q:\n%s", test.when, seen.String())
				}
			}
			if err := c.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(output) // until nobody can write any more
			_ = c.Wait()
			wantNothing(t, temporary)
			if code := c.ProcessState.ExitCode(); code == 0 || (test.report && !test.make && code != 1) {
				t.Errorf("the exit code is %d", code)
			}
			written, err := report.Read(filepath.Join(root, "out", "solutions", "02-reconciler", report.JSONFile))
			switch {
			case !test.report:
			case err != nil:
				t.Errorf("%v; it printed\n%s%s", err, seen.String(), rest)
			case written.Outcome != report.Interrupted:
				t.Errorf("the outcome is %s: %s", written.Outcome, written.Reason)
			}
		})
	}
}
