// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pidtest

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// ErrTaken reports that another process or thread has the number. It may be a thread of the Go runtime, which then
// keeps the number.
var ErrTaken = errors.New("another process or thread has the number")

// StartAs starts a program as the process that has a number, in a group of its own. We must be in a PID namespace in
// which no other process starts processes, and whose /proc we see. After ErrTaken, only a retry in another process can
// succeed.
func StartAs(number int, program string, args ...string) (*exec.Cmd, error) {
	for range 100 {
		// The kernel gives the next number to the next process or thread (proc_sys_kernel(5)).
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(number-1)), 0); err != nil {
			return nil, err
		}
		c := exec.Command(program, args...) //nolint:noctx // it ends with the namespace
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			return nil, err
		}
		if c.Process.Pid == number {
			return c, nil
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	return nil, ErrTaken
}
