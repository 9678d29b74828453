// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var numbers = regexp.MustCompile(`\d+ \(`)

func init() { roles["attending"] = attend }

// attend attends the shell that runs the line in the variable LINE.
func attend() error {
	ctx := context.Background()
	if limit, err := time.ParseDuration(os.Getenv("LIMIT")); err == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	patience, err := time.ParseDuration(os.Getenv("PATIENCE"))
	if err != nil {
		return err
	}
	status, left, err := Attend(ctx, "/bin/sh", []string{"-c", os.Getenv("LINE")}, patience)
	fmt.Printf("status %d, left %q\n", status, left)
	return err
}

func TestAttendNamesRemainingProcesses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ what, line, patience, limit, want string }{
		{"nothing", "exit 3", "1h", "", `status 3, left ""`},
		{"a process that ends a little later", "sleep 0.2 & exit 0", "1h", "", `status 0, left ""`},
		{"a process of the same group", "sleep 1000 & exit 0", "1ms", "", `status 0, left "N (sleep)"`},
		{"a process that has left group and session", "setsid sleep 1000 & exit 4", "1ms", "", `status 4, left "N (sleep)"`},
		{
			"an orphan of an orphan", "setsid sh -c 'sleep 1000 & sleep 1001 &' & wait",
			"1ms", "", `status 0, left "N (sleep), N (sleep)"`,
		},
		{"a program that a signal ends", "kill -9 $$", "1h", "", `status 137, left ""`},
		{"a program that takes too long", "sleep 1000", "1h", "1ms", `status 137, left ""`},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			a := newActor(t, "attending", t.TempDir())
			a.Env = append(a.Env, "LINE="+test.line, "PATIENCE="+test.patience, "LIMIT="+test.limit)
			a.start(t)
			output := strings.Join(a.line(t), " ")
			// A process that was just forked still has another name.
			if got := strings.NewReplacer("(sh)", "(sleep)", "(setsid)", "(sleep)").Replace(
				numbers.ReplaceAllString(output, "N (")); got != test.want {
				t.Errorf("the output is %s, want %s", output, test.want)
			}
			// When the output reports the processes, they have already ended.
			for _, name := range numbers.FindAllString(output, -1) {
				if pid := number(t, strings.TrimSuffix(name, " (")); runs(pid) {
					t.Errorf("%d still runs", pid)
				}
			}
		})
	}
}
