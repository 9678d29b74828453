// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package process

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func groupAttributes(detachable bool) *syscall.SysProcAttr {
	if detachable {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// executable returns the file of this program.
func executable() (string, error) { return os.Executable() }

// niceness returns our own niceness.
func niceness() int {
	niceness, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return niceness
}

// explainStartError explains why a program could not start.
func explainStartError(string, error) string { return "" }

// await waits until the program and its output have ended, and ends what it left in its group.
func await(cmd *exec.Cmd, forget func()) error {
	err := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	forget()
	return err
}

// group is a process group.
type group struct{ number int }

func openGroup(number int) (group, bool) { return group{number}, true }

func (g group) Close() {}

func (g group) SignalGroup(signal syscall.Signal) bool { return syscall.Kill(-g.number, signal) == nil }

// Attend runs a program with our input, output and environment. Without /proc, it can't find processes that are left.
func Attend(ctx context.Context, path string, args []string, _ time.Duration) (status int, left string, err error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	_ = cmd.Wait() // the exit code has the result
	return cmd.ProcessState.ExitCode(), "", nil
}

// namesBelow would need /proc.
func namesBelow(int) string { return "" }

// supervision is for systems where a program can be contained.
type supervision struct{}

// startContained starts a program like any other. Processes that leave its group are not found.
func (s *Scope) startContained(spec Spec) (*exec.Cmd, *supervision, error) {
	cmd, err := s.startFree(spec)
	return cmd, nil, err
}

func (*supervision) ending(err error) error             { return err }
func (*supervision) kill(*os.Process)                   {}
func (*supervision) signal(*os.Process, syscall.Signal) {}
func (*supervision) endsByKernel() bool                 { return false }
func (*supervision) containment() Containment           { return Grouped }
func (*supervision) walls() []Wall                      { return nil }

// killMarked does nothing, because without /proc no process's environment can be read. Groups are ended all the same.
func killMarked(string) {}

// Belongs reports whether the process runs. Without /proc, it can't know the process's scope.
func Belongs(pid int, _ string) bool {
	return syscall.Kill(pid, 0) == nil
}

// EndWithParent sends us a SIGTERM when the process that started us has died.
func EndWithParent() {
	parent := os.Getppid()
	go func() {
		for range time.Tick(500 * time.Millisecond) {
			if os.Getppid() != parent {
				_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
				return
			}
		}
	}()
}
