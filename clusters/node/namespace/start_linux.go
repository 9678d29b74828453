// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package namespace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/thread"
)

// everything has the flags of all namespaces that the node has of its own.
const everything = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
	unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// waitVariable makes a first process wait for its IDs. Its value is the number of the last descriptor, on which the
// process receives a byte when the IDs are mapped.
const waitVariable = "OPERATOR_LABS_WAIT_FOR_IDS"

// Command is a program to start as the first process of new namespaces. It must call Begin before all else.
type Command struct {
	Path string
	// Args are its arguments, including its name.
	Args []string
	// Env is its whole environment.
	Env     []string
	Mapping Mapping
	Stdout  *os.File
	Stderr  *os.File
	// Files are its descriptors from 3 on.
	Files []*os.File
	// Cgroup, if it is not nil, is the folder of the control group in which it starts.
	Cgroup *os.File
}

// Start starts a program as the first process of new namespaces, as root in them. When it ends, the kernel kills all
// other processes in them. It is killed when we end. If an error of the kernel or of newuidmap means that this machine
// allows no namespaces, it is returned as an *Unavailable.
func Start(c Command) (*exec.Cmd, error) {
	if c.Mapping.subordinate {
		cmd, err := start(c)
		if err == nil {
			return cmd, nil
		}
		c.Mapping = c.Mapping.Alone() // newuidmap exists, but does not work: it lacks its capability
	}
	cmd, err := start(c)
	if err != nil {
		return nil, Explain(err)
	}
	return cmd, nil
}

func start(c Command) (*exec.Cmd, error) {
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Env, Dir: "/", Stdout: c.Stdout, Stderr: c.Stderr}
	cmd.ExtraFiles = append(cmd.ExtraFiles, c.Files...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: everything, Pdeathsig: syscall.SIGKILL, Setsid: true}
	if c.Cgroup != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(c.Cgroup.Fd())
	}
	if !c.Mapping.subordinate {
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = c.Mapping.Users, c.Mapping.Groups
		cmd.SysProcAttr.GidMappingsEnableSetgroups = !c.Mapping.Single()
		if user, _ := c.Mapping.Owner(); user != os.Geteuid() {
			// The process becomes root in the namespace, in which our own user is not mapped.
			cmd.SysProcAttr.Credential = &syscall.Credential{}
		}
		return cmd, thread.Run(cmd.Start)
	}
	wait, mapped, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer mapped.Close()
	cmd.ExtraFiles = append(cmd.ExtraFiles, wait)
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", waitVariable, 2+len(cmd.ExtraFiles)))
	err = thread.Run(cmd.Start)
	wait.Close()
	if err != nil {
		return nil, err
	}
	if err = c.Mapping.write(cmd.Process.Pid); err == nil {
		_, err = mapped.Write([]byte{1})
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	return cmd, nil
}

// Begin must be the first call in a first process. It waits for the process's IDs, asks the kernel to kill the process
// when its parent dies, and makes the mounts, which are copies of the machine's, private.
func Begin() error {
	if waiting := os.Getenv(waitVariable); waiting != "" {
		var descriptor int
		if _, err := fmt.Sscan(waiting, &descriptor); err != nil {
			return fmt.Errorf("waiting for the ID mapping: %w", err)
		}
		if n, err := unix.Read(descriptor, make([]byte, 1)); n != 1 {
			return fmt.Errorf("waiting for the ID mapping: %w", errors.Join(err, errors.New("the parent process has exited")))
		}
		if err := errors.Join(unix.Close(descriptor), os.Unsetenv(waitVariable)); err != nil {
			return fmt.Errorf("waiting for the ID mapping: %w", err)
		}
		// The user was not mapped when this program began, so the process lost all capabilities. Now that it is root, a
		// restart gives it all of them.
		return fmt.Errorf("restarting with the mapped IDs: %w", syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("setting the parent death signal: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	return nil
}

func init() {
	// The main goroutine keeps the main thread, so that OnThread never uses it. The main thread can't end before the
	// process does, and its namespaces are shown as those of the process (/proc/PID/ns).
	runtime.LockOSThread()
}

// OnThread runs a function on a thread that ends afterwards, so that the function may change the thread's namespaces.
func OnThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // it is never unlocked, so that the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

// KeepingNetwork runs a function that may change the network namespace of its thread. If the thread can return to its
// earlier namespace, it is reused. Otherwise it ends. All processes that it started with a parent-death signal
// (PR_SET_PDEATHSIG) end with it, because for the kernel the parent is the thread.
func KeepingNetwork(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		before, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			result <- fmt.Errorf("opening the current network namespace: %w", err)
			return
		}
		defer before.Close()
		err = f()
		if unix.Setns(int(before.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}
