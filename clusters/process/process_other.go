// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package process

import (
	"os"
	"syscall"
	"time"
)

func groupAttributes(detachable bool) *syscall.SysProcAttr {
	if detachable {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// killMarked does nothing: without /proc no process's environment can be read. Groups are ended all the same.
func killMarked(string) {}

// Belongs reports whether the process runs. Whose it is can't be known without /proc.
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
