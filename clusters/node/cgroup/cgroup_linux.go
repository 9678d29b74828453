// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Controllers are what limits need.
var Controllers = []string{"cpu", "memory", "pids"}

// mounted is where control groups are mounted by all systems that have only version 2.
const mounted = "/sys/fs/cgroup"

const prefix = "operator-labs-"

// ErrNone says that no control groups can be had here.
var ErrNone = errors.New("this machine gives us no control groups of version 2")

// Base is the group below which root makes the nodes'. The error is ErrNone where its controllers can't be passed on.
func Base() (string, error) {
	if !version2() {
		return "", ErrNone
	}
	passed, err := os.ReadFile(filepath.Join(mounted, "cgroup.subtree_control"))
	if err != nil || !allControllers(string(passed)) || unix.Access(mounted, unix.W_OK) != nil {
		return "", ErrNone
	}
	return mounted, nil
}

// version2 reports whether the machine has version 2 only: where both are there, version 1 has the controllers.
func version2() bool {
	var system unix.Statfs_t
	return unix.Statfs(mounted, &system) == nil && system.Type == unix.CGROUP2_SUPER_MAGIC
}

func allControllers(list string) bool {
	for _, controller := range Controllers {
		if !slices.Contains(strings.Fields(list), controller) {
			return false
		}
	}
	return true
}

// Group is a node's control group.
type Group struct {
	// Dir is its folder.
	Dir string
}

// Programs is the folder of the group of the node's own programs.
func (g *Group) Programs() string { return filepath.Join(g.Dir, "node") }

// Make makes the group of root's node, which passes these controllers on, and gives it to the user and group who are root there.
func Make(base, name string, controllers []string, user, group int) (*Group, error) {
	sweep(base)
	g := &Group{Dir: filepath.Join(base, prefix+name)}
	if err := os.Mkdir(g.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a control group: %w", err)
	}
	if err := g.prepare(controllers, user, group); err != nil {
		return nil, errors.Join(fmt.Errorf("making a control group: %w", err), g.Remove())
	}
	return g, nil
}

func (g *Group) prepare(controllers []string, user, group int) error {
	if err := g.pass(controllers); err != nil {
		return err
	}
	if err := os.Mkdir(g.Programs(), 0o755); err != nil {
		return err
	}
	// What its owner needs to make groups below it and to move processes between them (Delegation in the kernel's cgroup-v2.rst).
	for _, path := range []string{"", "cgroup.procs", "cgroup.subtree_control", "node", "node/cgroup.procs"} {
		if err := os.Chown(filepath.Join(g.Dir, path), user, group); err != nil {
			return err
		}
	}
	return nil
}

// pass lets groups below this one have controllers.
func (g *Group) pass(controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(g.Dir, "cgroup.subtree_control"), []byte("+"+strings.Join(controllers, " +")), 0)
}

// removeTimeout is how long processes that were killed may take to leave a group.
const removeTimeout = 5 * time.Second

// Remove removes a group and those below it. It waits for the processes in it, which must have been killed.
func (g *Group) Remove() error {
	const pause = 10 * time.Millisecond
	deadline := time.After(removeTimeout)
	for tick := time.NewTicker(pause); ; {
		err := removeTree(g.Dir)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-tick.C:
		case <-deadline:
			return fmt.Errorf("removing a control group: %w", err)
		}
	}
}

// removeTree removes the folders of a group. What else is in them goes with them.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// sweep removes the groups of nodes that are gone: whoever should have removed them was killed, too.
func sweep(base string) {
	left, _ := filepath.Glob(filepath.Join(base, prefix+"*"))
	for _, dir := range left {
		events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
		if err == nil && strings.Contains(string(events), "populated 0") {
			_ = removeTree(dir) // somebody may have begun to use it
		}
	}
}
