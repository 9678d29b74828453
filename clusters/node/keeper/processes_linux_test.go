// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/keeper"
	"lva.io/operators/clusters/node/nodetest"
)

func TestSignalAndKill(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `trap 'echo told' TERM; echo ready; while true; do sleep 0.01; done`)
	await(ctx, t, "the program", func() bool { return contains(log, "ready") })
	if err := c.Signal(ctx, id, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "the signal", func() bool { return contains(log, "told") })
	if err := c.Kill(ctx, id); err != nil {
		t.Fatal(err)
	}
	if state := wait(ctx, t, c, id); state.Code != 128+9 {
		t.Errorf("Wait() = %+v, want exit code 137", state)
	}
}

func TestSharedPIDNamespaceLeavesNoProcess(t *testing.T) {
	c, ctx := client(t)
	first, _ := start(ctx, t, c, `exec sleep 780`, func(s *keeper.Start) { s.ID += "-first" })
	other, log := start(ctx, t, c, `(setsid sleep 781 &); echo ready; exec sleep 782`, func(s *keeper.Start) {
		s.ID, s.Processes = s.ID+"-other", first
	})
	await(ctx, t, "the other container", func() bool { return contains(log, "ready") && running("sleep", "781") == 1 })
	for name, test := range map[string]struct {
		last   string
		kill   bool
		shares func(*keeper.Start)
	}{
		"killed":   {"exec sleep 784", true, func(s *keeper.Start) { s.Processes = first }},
		"ended":    {"sleep 0.1; exit 3", false, func(s *keeper.Start) { s.Processes = first }},
		"the node": {"exec sleep 784", true, func(s *keeper.Start) { s.Spec.NodeProcesses = true }},
	} {
		t.Run(name, func(t *testing.T) {
			// The daemon's parent is the first process of the namespace, which belongs to another container.
			script := `(setsid sleep 783 > /dev/null 2>&1 &); echo ready; ` + test.last
			id, log := start(ctx, t, c, script, test.shares)
			await(ctx, t, "the container", func() bool { return contains(log, "ready") })
			if test.kill {
				await(ctx, t, "the daemon", func() bool { return running("sleep", "783") == 1 })
				if err := c.Kill(ctx, id); err != nil {
					t.Fatal(err)
				}
			}
			wait(ctx, t, c, id)
			if left := running("sleep", "783"); left != 0 {
				t.Errorf("%d processes of the container outlived it", left)
			}
		})
	}
	for _, id := range []string{first, other} {
		states, err := c.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(states, func(s keeper.State) bool { return s.ID == id && s.Running() }) {
			t.Errorf("container %s is no longer running", id)
		}
	}
	if found := running("sleep", "781"); found != 1 {
		t.Errorf("found %d processes of another container's daemon, want 1", found)
	}
}

// Here a process has left its parent, and the container's PID and mount namespaces. It can only be found by its control
// group.
func TestKillEmptiesControlGroup(t *testing.T) {
	group := nodetest.Group(t)
	c, ctx := client(t)
	first, _ := start(ctx, t, c, `exec sleep 786`, func(s *keeper.Start) { s.ID += "-first" })
	id, log := start(ctx, t, c, `unshare --mount setsid sleep 787 & echo ready; exec sleep 788`, func(s *keeper.Start) {
		s.Processes, s.Spec.Cgroup = first, group
		s.Spec.Capabilities = append(slices.Clone(container.Unprivileged), "SYS_ADMIN")
	})
	await(ctx, t, "the container", func() bool { return contains(log, "ready") && running("sleep", "787") == 1 })
	if err := c.Kill(ctx, id); err != nil {
		t.Fatal(err)
	}
	wait(ctx, t, c, id)
	await(ctx, t, "the end of the detached process", func() bool { return running("sleep", "787") == 0 })
	if found := running("sleep", "786"); found != 1 {
		t.Errorf("found %d processes of another container, want 1", found)
	}
}

func TestSignalSparesReusedPID(t *testing.T) {
	c, ctx := client(t)
	id, _ := start(ctx, t, c, `exit 0`)
	before := wait(ctx, t, c, id)
	for attempt := 0; ; attempt++ {
		// The kernel assigns the next number to the next process or thread (proc_sys_kernel(5)).
		last := strconv.Itoa(before.PID - 1)
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(last), 0); err != nil {
			t.Fatal(err)
		}
		other := fmt.Sprint(t.Name(), "-", attempt)
		start(ctx, t, c, `exec sleep 785`, func(s *keeper.Start) { s.ID = other })
		states, err := c.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(states, func(s keeper.State) bool { return s.ID == other })
		if states[at].PID != before.PID {
			continue
		}
		for _, end := range []func() error{
			func() error { return c.Signal(ctx, id, unix.SIGKILL) }, func() error { return c.Kill(ctx, id) },
		} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Run(ctx, other, shell(t, `kill -0 1`), container.Streams{}); err != nil {
			t.Errorf("the signal reached the other container: %v", err)
		}
		return
	}
}

// running counts the processes with these arguments.
func running(arguments ...string) (count int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && string(line) == strings.Join(arguments, "\x00")+"\x00" {
			count++
		}
	}
	return count
}

func TestOrphansAreReaped(t *testing.T) {
	c, ctx := client(t)
	// In a Pod whose containers share processes, only the first process can reap the processes that a container leaves
	// behind.
	first, _ := start(ctx, t, c, `trap 'exit 0' TERM; while true; do sleep 0.01; done`,
		func(s *keeper.Start) { s.ID += "-first" })
	id, _ := start(ctx, t, c, `(setsid sh -c 'sleep 0.05' &); exit 0`, func(s *keeper.Start) { s.Processes = first })
	wait(ctx, t, c, id)
	await(ctx, t, "no zombies of ours", func() bool { return zombies(t, os.Getpid()) == 0 })
}

// zombies counts the children of a process that have ended and that it has not waited for.
func zombies(t *testing.T, parent int) (count int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[0] == "Z" && fields[1] == strconv.Itoa(parent) {
			count++
		}
	}
	return count
}
