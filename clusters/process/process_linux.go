// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func groupAttributes(detachable bool) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if detachable {
		attributes = &syscall.SysProcAttr{Setsid: true}
	} else {
		// Faster than the guard, and works when the guard was killed first. Go ends a thread only with a goroutine
		// that was locked to it, and none of ours that start processes is.
		attributes.Pdeathsig = syscall.SIGKILL
	}
	return attributes
}

// killMarked repeats until it has found none twice: a process may fork while we look, and in the middle of an exec it has
// no environment for a moment. One that the kernel can't end (it waits for a disk) is left to its fate after two seconds.
func killMarked(id string) {
	giveUp := time.Now().Add(2 * time.Second)
	for none := 0; none < 2 && time.Now().Before(giveUp); {
		none++
		environments, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range environments {
			environment, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			if len(environment) == 0 && inExec(filepath.Dir(file)) {
				none = 0
			}
			if !marked(environment, id) {
				continue
			}
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if pid == os.Getpid() || unix.Kill(pid, unix.SIGKILL) != nil {
				continue
			}
			none = 0
		}
		if none == 0 {
			time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel tells nobody; what is dying or becoming another program needs the processor more than we do
		}
	}
}

// inExec reports whether a process is between two programs: it has left the memory of the one, and the kernel has not yet
// put an environment into that of the other. With a cold disk this takes a while. (proc(5), /proc/pid/stat)
func inExec(process string) bool {
	stat, err := os.ReadFile(filepath.Join(process, "stat"))
	if err != nil {
		return false
	}
	// The fields after the program's name, which may hold anything: the first of them is number 3 of the manual's.
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	const (
		state, flags, environmentEnd = 0, 6, 48
		kernelThread                 = 0x00200000 // PF_KTHREAD
	)
	if len(fields) <= environmentEnd || strings.ContainsAny(fields[state], "ZX") || fields[environmentEnd] != "0" {
		return false
	}
	word, err := strconv.ParseUint(fields[flags], 10, 64)
	return err == nil && word&kernelThread == 0
}

// Belongs reports whether the process runs and is one of the scope's: its number may be another's by now.
func Belongs(pid int, id string) bool {
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && marked(environment, id)
}

// EndWithParent asks for a SIGTERM when the process that started us dies, for commands that are part of a larger one
// (make): kill -9 of that must end them, too.
func EndWithParent() {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
}
