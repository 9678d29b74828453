// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"lva.io/operators/clusters/process/pid/pidtest"
)

// machineVariable makes the test binary the first process of a PID namespace. Its value is the root of a checkout
// there.
const machineVariable = "OPERATOR_LABS_TEST_MACHINE"

func init() {
	root := os.Getenv(machineVariable)
	if root == "" {
		return
	}
	if err := endReused(root); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// endReused ends an engine that has already ended, and whose number another process has.
func endReused(root string) error {
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	// Only the arguments of dockerd matter.
	dockerd := exec.Command("/bin/sh", "-c", "read line", "--data-root", filepath.Join(folder(root), "data"))
	input, err := dockerd.StdinPipe()
	if err != nil {
		return err
	}
	if err := dockerd.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(pidFile(root), []byte(strconv.Itoa(dockerd.Process.Pid)), 0o600); err != nil {
		return err
	}
	// A program that has just started has no arguments for a moment.
	found := ours(root)
	for deadline := time.Now().Add(time.Minute); found == nil; found = ours(root) {
		if time.Now().After(deadline) {
			return errors.New("the engine is not found")
		}
		<-time.After(time.Millisecond)
	}
	input.Close()
	_ = dockerd.Wait()
	unrelated, err := pidtest.StartAs(found.Pid, "/bin/sleep", "1000")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := end(ctx, found); err != nil {
		return err
	}
	// A process dies by the signal that came first.
	if err := errors.Join(unrelated.Process.Kill(), unrelated.Wait()); err == nil || err.Error() != "signal: killed" {
		return fmt.Errorf("another process with the number of the engine has ended: %w", err)
	}
	return nil
}

func TestStopSparesProcessThatReusesThePID(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(folder(root), 0o700); err != nil {
		t.Fatal(err)
	}
	machine := exec.CommandContext(t.Context(), "/proc/self/exe")
	machine.Env = append(os.Environ(), machineVariable+"="+root)
	machine.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		identity := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
		machine.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		machine.SysProcAttr.UidMappings, machine.SysProcAttr.GidMappings = identity(os.Getuid()), identity(os.Getgid())
	}
	if output, err := machine.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
