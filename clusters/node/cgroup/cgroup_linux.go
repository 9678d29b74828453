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

	"lva.io/operators/clusters/filelock"
)

// controllers are the controllers that a node can use.
var controllers = []string{"cpu", "memory", "pids"}

// mounted is where systems that have only version 2 mount control groups.
const mounted = "/sys/fs/cgroup"

const prefix = "operator-labs-"

// ErrNone reports that this machine provides no control groups.
var ErrNone = errors.New("this machine has no cgroup v2 hierarchy that this user can manage")

// Base returns the group below which root creates the nodes' groups, and the controllers that it delegates. The error
// is ErrNone if it can't be divided, or delegates no controller that limits memory or processors.
func Base() (dir string, passed []string, err error) {
	if !version2() || unix.Access(mounted, unix.W_OK) != nil {
		return "", nil, ErrNone
	}
	passed, err = delegated(filepath.Join(mounted, "cgroup.subtree_control"))
	return mounted, passed, err
}

// delegated returns those of our controllers that a file of a group lists. With some only, some limits hold: before
// version 252, systemd keeps cpu from ordinary users. The error is ErrNone if no limit would.
func delegated(file string) ([]string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	listed := strings.Fields(string(content))
	found := slices.DeleteFunc(slices.Clone(controllers), func(controller string) bool {
		return !slices.Contains(listed, controller)
	})
	if !slices.Contains(found, "cpu") && !slices.Contains(found, "memory") {
		return nil, fmt.Errorf("%w: %s lists neither cpu nor memory", ErrNone, file)
	}
	return found, nil
}

// version2 reports whether the machine has version 2 only. Where it has both versions, version 1 has the controllers.
func version2() bool {
	var system unix.Statfs_t
	return unix.Statfs(mounted, &system) == nil && system.Type == unix.CGROUP2_SUPER_MAGIC
}

// Group is the control group of a node.
type Group struct {
	// Dir is the group's folder.
	Dir string
	// Controllers are the controllers that it delegates to its children: "cpu", "memory", "pids". Limits of other
	// controllers have no effect.
	Controllers []string

	held *os.File // locked from the group's creation, so that no other process removes it before a process is in it
}

// Limits reports whether limits of a controller have an effect in the group. A nil group has no limits.
func (g *Group) Limits(controller string) bool {
	return g != nil && slices.Contains(g.Controllers, controller)
}

// Programs returns the folder of the group of the node's own programs.
func (g *Group) Programs() string { return filepath.Join(g.Dir, "node") }

// Create creates the group of a node that root runs, delegates these controllers to it, and gives it to the user and
// group that are root in the node.
func Create(base, name string, controllers []string, user, group int) (*Group, error) {
	g := &Group{Dir: filepath.Join(base, prefix+name), Controllers: controllers}
	if err := g.create(base); err != nil {
		return nil, fmt.Errorf("creating a control group: %w", err)
	}
	if err := g.prepare(user, group); err != nil {
		return nil, errors.Join(fmt.Errorf("creating a control group: %w", err), g.Remove())
	}
	return g, nil
}

// sweepPatience is how long Create waits for other processes that sweep, which takes milliseconds. Any user can take
// the lock, and must not be able to keep root's nodes from starting.
const sweepPatience = 2 * time.Second

// create creates the folder and locks it. No other process sweeps at the same time.
func (g *Group) create(base string) error {
	all, err := os.Open(base)
	if err != nil {
		return err
	}
	defer all.Close()
	giveUp := time.Now().Add(sweepPatience)
	err = filelock.TryLockExclusive(all)
	for errors.Is(err, filelock.ErrHeld) && time.Now().Before(giveUp) {
		<-time.After(10 * time.Millisecond)
		err = filelock.TryLockExclusive(all)
	}
	switch {
	case err == nil:
		sweep(base)
	case !errors.Is(err, filelock.ErrHeld):
		return err
	}
	if err := os.Mkdir(g.Dir, 0o755); err != nil {
		return err
	}
	if g.held, err = os.Open(g.Dir); err != nil {
		return err
	}
	return filelock.LockExclusive(g.held)
}

func (g *Group) prepare(user, group int) error {
	if err := g.delegate(); err != nil {
		return err
	}
	if err := os.Mkdir(g.Programs(), 0o755); err != nil {
		return err
	}
	// Its owner needs these files to create groups below it and to move processes between them (Delegation in the kernel's
	// cgroup-v2.rst).
	for _, path := range []string{"", "cgroup.procs", "cgroup.subtree_control", "node", "node/cgroup.procs"} {
		if err := os.Chown(filepath.Join(g.Dir, path), user, group); err != nil {
			return err
		}
	}
	return nil
}

// delegate makes the controllers available to the groups below this one.
func (g *Group) delegate() error {
	if len(g.Controllers) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(g.Dir, "cgroup.subtree_control"), []byte("+"+strings.Join(g.Controllers, " +")), 0)
}

// removeTimeout is how long killed processes may take to leave a group.
const removeTimeout = 5 * time.Second

// Remove removes a group and the groups below it. It waits for the processes in it, which must have been killed.
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

// removeTree removes the folder of a group and those below it. The kernel removes the files in them.
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

// sweep removes the groups of nodes whose process and guard were both killed.
func sweep(base string) {
	left, _ := filepath.Glob(filepath.Join(base, prefix+"*"))
	for _, dir := range left {
		events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
		if err == nil && strings.Contains(string(events), "populated 0") && !held(dir) {
			_ = removeTree(dir)
		}
	}
}

// held reports whether the process that created a group still holds it.
func held(dir string) bool {
	folder, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer folder.Close()
	return errors.Is(filelock.TryLockExclusive(folder), filelock.ErrHeld)
}
