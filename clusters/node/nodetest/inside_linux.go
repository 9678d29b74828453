// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package nodetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/namespace"
)

// Inside must be called by TestMain, and does not return. It runs the tests in namespaces like those of a node, as the
// first process: as root with many IDs, and as an ordinary user with one. The tests see the machine's files, and have a
// /tmp of their own.
func Inside(m *testing.M) { enterAndRun(m, false) }

// InsideGroup is like Inside, but root's tests can create control groups (Group).
func InsideGroup(m *testing.M) { enterAndRun(m, true) }

func enterAndRun(m *testing.M, inGroup bool) {
	container.Main()
	if os.Getenv(inside) != "" {
		os.Exit(runInside(m))
	}
	if err := enter(inGroup); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func enter(inGroup bool) error {
	// A user who may not create namespaces has no node. Other tests cover that.
	if os.Getuid() != 0 {
		fmt.Println("# as an ordinary user with one id")
		return first(namespace.Choose().Alone())
	}
	fmt.Println("# as root")
	run := first
	if inGroup {
		run = firstInGroup
	}
	if err := run(namespace.Choose()); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "nodetest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		return err
	}
	return reexec(
		&syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}},
		"TMPDIR="+dir, "HOME="+dir,
	)
}

func first(mapping namespace.Mapping) error { return start(namespace.Command{Mapping: mapping}) }

func firstInGroup(mapping namespace.Mapping) (err error) {
	group, err := createGroup(mapping)
	if group == nil || err != nil {
		return errors.Join(err, first(mapping))
	}
	defer func() { err = errors.Join(err, group.Remove()) }()
	folder, err := os.Open(group.Programs())
	if err != nil {
		return err
	}
	defer folder.Close()
	return start(namespace.Command{Mapping: mapping, Cgroup: folder, Env: []string{groupVariable + "=" + group.Dir}})
}

// start runs the tests as the first process of namespaces. The command has the settings that differ between users.
func start(c namespace.Command) error {
	c.Path, c.Args, c.Stdout, c.Stderr = "/proc/self/exe", arguments(), os.Stdout, os.Stderr
	c.Env = append(append(os.Environ(), inside+"=yes"), c.Env...)
	cmd, err := namespace.Start(c)
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = cmd.Process.Kill()
	}()
	if err := cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return errors.New("tests failed")
		}
		return err
	}
	return nil
}

// arguments returns our own arguments, without a file of the go command to which the test's user may not write.
func arguments() []string {
	return slices.DeleteFunc(slices.Clone(os.Args), func(argument string) bool {
		return strings.HasPrefix(argument, "-test.testlogfile=")
	})
}

func runInside(m *testing.M) int {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "preparing the namespaces of the tests:", err)
		return 1
	}
	return m.Run()
}

func prepare() error {
	if err := namespace.Begin(); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// A tmpfs has the features that containers need, whatever the machine's file system is.
	if err := unix.Mount("tmpfs", "/mnt", "tmpfs", 0, "mode=1777"); err != nil {
		return fmt.Errorf("mounting a tmpfs: %w", err)
	}
	// New terminals belong to the user who mounts this.
	if err := unix.Mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666"); err == nil {
		_ = unix.Mount("/dev/pts/ptmx", "/dev/ptmx", "", unix.MS_BIND, "")
	}
	if err := os.Setenv("TMPDIR", "/mnt"); err != nil {
		return err
	}
	return namespace.Loopback()
}

// MachinePrograms returns the machine's programs and the files that they need, as volumes for containers whose image
// has no programs.
func MachinePrograms() []container.Mount {
	var mounts []container.Mount
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin"} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			mounts = append(mounts, container.Mount{Source: dir, Target: filepath.Clean(dir), ReadOnly: true})
		}
	}
	return mounts
}
