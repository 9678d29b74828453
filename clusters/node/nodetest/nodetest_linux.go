// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package nodetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

const (
	inside   = "OPERATOR_LABS_NODETEST"
	prepared = "OPERATOR_LABS_NODETEST_PREPARED"
	nobody   = 65534
)

// Main must be called by TestMain, and does not return. The prepare functions run before the tests lose their network.
// They provide what the tests need and can't get without one.
func Main(m *testing.M, prepare ...func() error) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	var err error
	if os.Getenv(prepared) == "" {
		for _, prepare := range prepare {
			err = errors.Join(err, prepare())
		}
	}
	if err == nil {
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run() error {
	runtime.LockOSThread() // Pdeathsig is sent when the thread that started the process ends
	if os.Getuid() != 0 {
		fmt.Println("# as an ordinary user, in a user namespace")
		return reexec(&syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}, inside+"=yes")
	}
	fmt.Println("# as root")
	if err := reexec(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}, inside+"=yes"); err != nil {
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
		"TMPDIR="+dir, "HOME="+dir, prepared+"=yes",
	)
}

func reexec(attributes *syscall.SysProcAttr, environment ...string) error {
	attributes.Pdeathsig = syscall.SIGKILL
	tests := exec.Command("/proc/self/exe", arguments()[1:]...)
	tests.Env = append(os.Environ(), environment...)
	tests.Stdin, tests.Stdout, tests.Stderr = os.Stdin, os.Stdout, os.Stderr
	tests.SysProcAttr = attributes
	err := tests.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("running the tests in a network namespace: %w", err)
	}
	return err
}
