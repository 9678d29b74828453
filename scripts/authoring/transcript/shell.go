// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package transcript

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"lva.io/operators/clusters/process"
)

const (
	// patience is the time limit of a command. The longest one builds a cluster's programs.
	patience = 15 * time.Minute
	// reading is how long a command that does not end runs before Ctrl-C.
	reading = 8 * time.Second
	// ending is how long a command may take to end after Ctrl-C.
	ending = 30 * time.Second
)

// canceledWatch matches a line that kubectl wait sometimes logs when it ends, because its condition became true while
// its watch began.
var canceledWatch = regexp.MustCompile(`^E\d{4} .* reflector\.go:\d+\] "Failed to watch" err=".*: context canceled" `)

// prelude is the first script in a page's shell. A shell ends itself when Ctrl-C has ended its command, unless it has a
// trap. "solution 8" runs lab 8's solution in the background, and returns when its controller works. Its log is in
// run.log.
const prelude = `trap : INT
solution() {
	: >"$HOME/run.log"
	lab run "$1" --solution >"$HOME/run.log" 2>&1 &
	until grep -q 'Starting workers' "$HOME/run.log"; do
		kill -0 $! 2>/dev/null || { cat "$HOME/run.log"; return 1; }
		sleep 1
	done
}
`

// shell is the shell that runs the commands of a page, one after the other.
type shell struct {
	process *process.Process
	script  io.WriteCloser
	groups  io.ReadCloser // the process groups of commands that are to be interrupted
	nonce   string

	mu      sync.Mutex
	printed strings.Builder
	changed chan struct{} // receives a value when there is new output
}

// newShell starts a shell in a folder. It ends with the scope.
func newShell(scope *process.Scope, dir string, env []string) (_ *shell, err error) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		return nil, errors.New("the commands of the pages run in bash, which is not on PATH: install it")
	}
	commands, script, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer commands.Close()
	groups, group, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, script.Close())
	}
	defer group.Close()
	s := &shell{script: script, groups: groups, nonce: rand.Text(), changed: make(chan struct{}, 1)}
	// Its standard input is empty, so that no command reads the following commands of the page.
	s.process, err = scope.Start(process.Spec{
		Name: "the shell", Path: bash, Args: []string{"--norc", "/dev/fd/3"}, Dir: dir, Env: env, Stdout: s, Stderr: s,
		Files: []*os.File{commands, group},
	})
	if err != nil {
		return nil, errors.Join(err, script.Close(), groups.Close())
	}
	if _, err := io.WriteString(script, prelude); err != nil {
		return nil, fmt.Errorf("writing to the shell: %w", err)
	}
	return s, nil
}

// Write receives the output of the shell and its commands.
func (s *shell) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printed.Write(text)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(text), nil
}

// close ends the shell and its background processes.
func (s *shell) close() error {
	err := errors.Join(s.script.Close(), s.groups.Close())
	s.process.Kill()
	return err
}

// run runs a command to its end. If the command is to be interrupted, run sends Ctrl-C after a while.
func (s *shell) run(ctx context.Context, command string, interrupt bool) (Entry, error) {
	entry := Entry{Command: command}
	if interrupt {
		// Ctrl-C ends what runs in the terminal's foreground. So the command, with all iterations of a loop, runs in a
		// process group of its own, without background processes.
		command = "set -m\n(\necho $BASHPID >&4\n" + command + "\n)"
	}
	mark := "\n" + s.nonce + " "
	if _, err := fmt.Fprintf(s.script, "%s\nprintf '\\n%s %%s\\n' $?; set +m\n", command, s.nonce); err != nil {
		return entry, fmt.Errorf("writing to the shell: %w", err)
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	var group int
	if interrupt {
		if _, err := fmt.Fscan(s.groups, &group); err != nil {
			return entry, fmt.Errorf("asking the shell for the group of a command: %w", err)
		}
		limit.Reset(reading)
	}
	for {
		if printed, status, ended := s.ended(mark); ended {
			lines := strings.Split(strings.ReplaceAll(printed, "\r\n", "\n"), "\n")
			entry.Lines = trimmed(slices.DeleteFunc(lines, canceledWatch.MatchString))
			if entry.Status = status; entry.Interrupted {
				entry.Status = 0
			}
			return entry, nil
		}
		select {
		case <-s.changed:
		case <-s.process.Done():
			return entry, fmt.Errorf("the shell ended during this command: %s", firstLine(command))
		case <-ctx.Done():
			return entry, context.Cause(ctx)
		case <-limit.C:
			if !interrupt {
				return entry, fmt.Errorf("this command did not end within %s: %s", patience, firstLine(command))
			}
			if entry.Interrupted {
				return entry, fmt.Errorf("this command did not end within %s of Ctrl-C: %s", ending, firstLine(command))
			}
			entry.Interrupted = true
			limit.Reset(ending)
			if err := syscall.Kill(-group, syscall.SIGINT); err != nil {
				return entry, fmt.Errorf("interrupting a command: %w", err)
			}
		}
	}
}

// ended returns the output of a command if it has ended, and removes it from the buffer.
func (s *shell) ended(mark string) (printed string, status int, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	printed, rest, found := strings.Cut(s.printed.String(), mark)
	code, after, whole := strings.Cut(rest, "\n")
	if !found || !whole {
		return "", 0, false
	}
	status, err := strconv.Atoi(code)
	if err != nil {
		return "", 0, false
	}
	s.printed.Reset()
	s.printed.WriteString(after) // of a command in the background
	return printed, status, true
}

func firstLine(command string) string {
	line, _, more := strings.Cut(command, "\n")
	if more {
		line += " …"
	}
	return line
}
