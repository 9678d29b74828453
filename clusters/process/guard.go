// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// guardName is the program name under which this program runs as a guard.
const guardName = "operator-labs-guard"

// The guard is the same program called by another name. So nothing has to be installed or found, and test binaries have
// a guard, too. It must not reach main.
func init() {
	if len(os.Args) == 3 && os.Args[0] == guardName {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
		guard(os.Stdin, os.Args[1], os.Args[2])
		os.Exit(0)
	}
}

// guard waits for the end of the pipe. Unless its owner dismissed it, it ends all processes of the scope, and removes
// the folder. The words of the protocol: "group N", "forget N", "dismiss".
func guard(pipe io.Reader, id, dir string) {
	groups := map[int]group{}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		var word string
		var number int
		_, _ = fmt.Sscan(lines.Text(), &word, &number)
		switch word {
		case "group":
			if group, found := openGroup(number); found {
				groups[number] = group
			}
		case "forget":
			if group, found := groups[number]; found {
				group.Close()
				delete(groups, number)
			}
		case "dismiss":
			return
		}
	}
	for _, group := range groups {
		group.SignalGroup(syscall.SIGKILL)
	}
	killMarked(id)
	if dir != "" {
		_ = removeAll(dir)
		_ = removeAll(unfinished(dir))
	}
}

func (s *Scope) startGuard() error {
	executable, err := executable()
	if err != nil {
		return fmt.Errorf("finding our own program: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting the guard: %w", err)
	}
	defer read.Close()
	dir := s.Dir
	if s.options.Dir != "" {
		dir = "" // not ours to remove
	}
	s.guard = &exec.Cmd{
		Path: executable, Args: []string{guardName, s.ID, dir}, Dir: "/", Env: []string{"GOMAXPROCS=1"},
		Stdin: read, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := s.guard.Start(); err != nil {
		write.Close()
		return fmt.Errorf("starting the guard: %w", err)
	}
	s.pipe = write
	return nil
}

func (s *Scope) notifyGuard(word string, number int) {
	// If the guard was killed, Close and the next sweep still clean up.
	_, _ = fmt.Fprintln(s.pipe, word, number)
}

func (s *Scope) dismissGuard() {
	s.notifyGuard("dismiss", 0)
	s.pipe.Close()
	_ = s.guard.Wait()
}
