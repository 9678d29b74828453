// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Program is a program of the node that is not a container: the agent, the kubelet.
type Program struct {
	Name string
	Path string
	// Args are its arguments, including its name.
	Args []string
	Env  []string
	// Log is the file for its output.
	Log *os.File
	// Files are its descriptors from 3 on.
	Files []*os.File
}

// patience is the minimum time between two starts of a program.
const patience = 500 * time.Millisecond

// Supervise runs a program until the context ends, and restarts it when it ends.
func (k *Keeper) Supervise(ctx context.Context, p Program) error {
	for ctx.Err() == nil {
		started := time.Now()
		process, ended, err := k.reaper.start(func() (*os.Process, error) {
			cmd := &exec.Cmd{
				Path: p.Path, Args: p.Args, Env: p.Env, Dir: "/", Stdout: p.Log, Stderr: p.Log, ExtraFiles: p.Files,
				SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
			}
			err := cmd.Start()
			return cmd.Process, err
		})
		if err != nil {
			return fmt.Errorf("starting %s: %w", p.Name, err)
		}
		select {
		case status := <-ended:
			fmt.Fprintf(p.Log, "%s: %s exited (%s), restarting\n",
				time.Now().UTC().Format(time.RFC3339), p.Name, describe(status))
		case <-ctx.Done():
			_ = signal(process, unix.SIGKILL)
			<-ended
			return nil
		}
		select {
		case <-time.After(max(0, patience-time.Since(started))):
		case <-ctx.Done():
		}
	}
	return nil
}

func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}
