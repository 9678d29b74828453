// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// scopeTimeout is how long systemd may take to create a scope. It takes some 20 ms.
const scopeTimeout = 5 * time.Second

// Enter restarts the current program in a control group of its own, as the same process and with these arguments, which
// include its name. The group is a scope of the user's systemd, which leaves the groups below it to us (Delegate= in
// systemd.resource-control(5)), and removes them when their last process has ended. An ordinary user can't get a group
// in another way, because users may not divide the groups of logins and terminals.
//
// Enter returns nil if the process is in that group already. The error is ErrNone if there is no systemd that provides
// a group.
func Enter(name, program string, arguments ...string) error {
	if !version2() {
		return ErrNone
	}
	if _, err := ownScope(name); err == nil {
		return nil
	}
	runner, err := exec.LookPath("systemd-run")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNone, err)
	}
	run := []string{runner, "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes"}
	environment := os.Environ()
	if os.Getenv("XDG_RUNTIME_DIR") == "" {
		environment = append(environment, "XDG_RUNTIME_DIR=/run/user/"+strconv.Itoa(os.Getuid()))
	}
	// Try systemd-run first: if it failed after exec, this process would be gone.
	ctx, cancel := context.WithTimeout(context.Background(), scopeTimeout)
	defer cancel()
	trial := exec.CommandContext(ctx, runner, append(run[1:], "true")...)
	trial.Env = environment
	if output, err := trial.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: systemd-run: %w: %s", ErrNone, err, strings.TrimSpace(string(output)))
	}
	run = append(run, "--unit="+scope(name), "--", program)
	return syscall.Exec(runner, append(run, arguments[1:]...), environment)
}

func scope(name string) string { return prefix + name + ".scope" }

// ownScope returns the folder of the scope with a name, if this process is in it.
func ownScope(name string) (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	path := strings.TrimPrefix(strings.TrimSpace(string(own)), "0::") // there is one line where there is version 2 only
	if filepath.Base(path) != scope(name) {
		return "", ErrNone
	}
	return filepath.Join(mounted, path), nil
}

// Own returns the group that this process has entered as the group of a node, with the controllers that systemd
// delegated. It moves the process to the group of the node's own programs. The error is ErrNone if the process has
// entered none, or no controller that limits memory or processors was delegated.
func Own(name string) (*Group, error) {
	dir, err := ownScope(name)
	if err != nil {
		return nil, err
	}
	return divide(dir)
}

func divide(dir string) (*Group, error) {
	passed, err := delegated(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	g := &Group{Dir: dir, Controllers: passed}
	if err := errors.Join(
		os.Mkdir(g.Programs(), 0o755),
		os.WriteFile(filepath.Join(g.Programs(), "cgroup.procs"), []byte("0"), 0),
		g.delegate(),
	); err != nil {
		return nil, fmt.Errorf("dividing a control group: %w", err)
	}
	return g, nil
}
