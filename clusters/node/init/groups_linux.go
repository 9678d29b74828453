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

// enterGroup restarts this program in a control group that its user may divide, if the machine provides one. Root does
// not need to start in a group.
func enterGroup(plan string) {
	if os.Geteuid() == 0 {
		return
	}
	program, err := os.Executable()
	if err == nil {
		err = cgroup.Enter(groupOf(plan), program, "init", "host", plan)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // a node without limits is better than no node
	}
}

// groupOf returns the name of the control group of the node with this plan. It is called in the node's process on the
// machine.
func groupOf(plan string) string {
	return fmt.Sprintf("%s-%d", filepath.Base(filepath.Dir(filepath.Dir(plan))), os.Getpid())
}

// createGroups creates the node's control groups. They exist until life is closed or this process ends. groups is nil
// if the machine provides none.
func createGroups(h plan.Host, name string) (groups *cgroup.Group, life io.Closer) {
	var err error
	if os.Geteuid() == 0 {
		groups, life, err = createRootGroups(h, name)
	} else {
		groups, err = cgroup.Own(name)
	}
	if err != nil && !errors.Is(err, cgroup.ErrNone) {
		fmt.Fprintln(os.Stderr, err) // the machine seemed to provide groups
	}
	if life == nil {
		life = io.NopCloser(nil)
	}
	return groups, life
}

// createRootGroups creates the groups for root, and starts the process that removes them. When this process is killed,
// nothing else removes these groups, unlike everything else of a node and the groups of ordinary users.
func createRootGroups(h plan.Host, name string) (groups *cgroup.Group, life io.Closer, err error) {
	base, passed, err := cgroup.Base()
	if err != nil {
		return nil, nil, err
	}
	mapping := namespace.Choose()
	if h.SingleID {
		mapping = mapping.Alone()
	}
	user, group := mapping.Owner()
	if groups, err = cgroup.Create(base, name, passed, user, group); err != nil {
		return nil, nil, err
	}
	if life, err = guardGroups(groups.Dir); err != nil {
		return nil, nil, errors.Join(err, groups.Remove())
	}
	return groups, life, nil
}

// guardGroups starts a process that removes a group when this process ends. The guard has no marker of the cluster's
// processes (package process), because processes with that marker are killed.
func guardGroups(dir string) (life io.Closer, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	guard := &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{"operator-labs-groups", dir},
		Dir:         "/",
		Env:         []string{"GOMAXPROCS=1"},
		Stdin:       read,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := guard.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the guard of the control groups: %w", err), write.Close())
	}
	go func() { _ = guard.Wait() }()
	return write, nil // no other process has this end of the pipe
}

// removeGroups waits for the end of its standard input and removes a control group.
func removeGroups(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: operator-labs-groups FOLDER")
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return (&cgroup.Group{Dir: arguments[0]}).Remove()
}
