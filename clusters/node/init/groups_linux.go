// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"lva.io/operators/clusters/node/cgroup"
	"lva.io/operators/clusters/node/namespace"
	"lva.io/operators/clusters/node/plan"
)

// makeGroups makes the node's control groups, and starts who removes them: unlike all else of a node they are not the kernel's to
// remove when we are killed. They are removed when life is closed, or ends with us. nil: there are none to be had here.
func makeGroups(h plan.Host) (groups *cgroup.Group, life io.Closer, err error) {
	base, err := cgroup.Base()
	if errors.Is(err, cgroup.ErrNone) {
		return nil, io.NopCloser(nil), nil
	}
	if err != nil {
		return nil, nil, err
	}
	mapping := namespace.Choose()
	if h.SingleID {
		mapping = mapping.Alone()
	}
	user, group := mapping.Owner()
	name := fmt.Sprintf("%s-%d", filepath.Base(filepath.Dir(h.Dir)), os.Getpid())
	groups, err = cgroup.Make(base, name, cgroup.Controllers, user, group)
	if err != nil {
		// It looked as if there were some. A node without limits is better than none.
		fmt.Fprintln(os.Stderr, err)
		return nil, io.NopCloser(nil), nil
	}
	if life, err = guardGroups(groups.Dir); err != nil {
		return nil, nil, errors.Join(err, groups.Remove())
	}
	return groups, life, nil
}

// guardGroups starts a process that removes a group when this process ends. It has no marker of the cluster's processes (package
// process), which are killed.
func guardGroups(dir string) (life io.Closer, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	guard := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"operator-labs-groups", dir}, Dir: "/", Env: []string{"GOMAXPROCS=1"}, Stdin: read,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := guard.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("watching over the control groups: %w", err), write.Close())
	}
	go func() { _ = guard.Wait() }()
	return write, nil // nobody else has this end of the pipe
}

// removeGroups waits for the end of its standard input and removes a control group.
func removeGroups(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("give the folder of a control group")
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return (&cgroup.Group{Dir: arguments[0]}).Remove()
}
