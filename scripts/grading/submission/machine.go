// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
)

// EnvironmentError is an error of the machine, the network or another program. It is not an error of the submission.
type EnvironmentError struct {
	// Reason is a sentence that describes what is wrong and what to do.
	Reason string
}

func (e *EnvironmentError) Error() string { return e.Reason }

// environmentError returns a *EnvironmentError if err is a fault of the machine, such as a full disk, and otherwise err
// itself.
func environmentError(err error) error {
	if reason, is := gobuild.MachineError(err); is {
		return &EnvironmentError{Reason: reason}
	}
	return err
}

// tool runs a program of the grader and returns its messages, with positions relative to the submission's folder. If
// the machine made it fail, the error is a *EnvironmentError. Messages about a fault of the machine are not enough for
// that, because a submission can make the tool print any line. The grader must find a fault itself. If it finds none,
// the tool runs again, because the fault may be over.
func (b *Builder) tool(ctx context.Context, t tool) (messages string, err error) {
	kills := process.OutOfMemoryKills()
	messages, err = b.run(ctx, t)
	err = environmentError(err)
	_, ended := errors.AsType[process.ExitError](err)
	if _, suspected := gobuild.MachineFault(messages); !ended || !suspected {
		return messages, err
	}
	if process.OutOfMemoryKills() > kills {
		return messages, environmentError(syscall.ENOMEM)
	}
	if fault := b.control(ctx, t); fault != nil {
		return messages, fault
	}
	if fault := b.checkDisks(ctx, t); fault != nil {
		return messages, fault
	}
	if t.stdout != nil && !t.online {
		return messages, err // the caller already has a part of its output
	}
	return b.run(ctx, t)
}

// control does the work of a tool that has failed where nothing is the submission's, so that the messages can be
// trusted: it builds a program, or downloads the modules that the submission lacks.
func (b *Builder) control(ctx context.Context, failed tool) error {
	args := slices.Concat([]string{"build"}, gobuild.Flags, []string{"-ldflags=-s -w", "-o", "control", "."})
	if failed.online {
		missing := b.missing()
		if len(missing) == 0 {
			return nil
		}
		args = append([]string{"mod", "download"}, missing...)
	}
	dir, err := os.MkdirTemp(b.toolFolder(), "control-")
	if err != nil {
		return environmentError(fmt.Errorf("creating a module: %w", err))
	}
	// The go command does not compile or link a program that it has built before.
	program := fmt.Sprintf("package main\n\nfunc main() { println(%q) }\n", rand.Text())
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module control\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600),
	); err != nil {
		return environmentError(fmt.Errorf("creating a module: %w", err))
	}
	messages, err := b.run(ctx, tool{
		path: "go", args: args, dir: dir, environment: failed.environment, timeout: failed.timeout, online: failed.online,
	})
	if err == nil {
		return nil
	}
	if reason, is := gobuild.MachineFault(messages); is {
		return &EnvironmentError{Reason: reason}
	}
	if _, ended := errors.AsType[process.ExitError](err); ended && failed.online {
		return nil // there is no such module
	}
	return environmentError(fmt.Errorf("running go %s without the submission: %w\n%s", args[0], err, messages))
}

const (
	// roomNeeded is more than a tool writes to a disk, in bytes. When the go command has filled a disk, it removes its
	// temporary files before it ends.
	roomNeeded = 1 << 30
	// roomTried is how many bytes are written to a disk, because the free space of a disk does not show quotas.
	roomTried = 64 << 20
)

// checkDisks returns a *EnvironmentError if a disk to which a tool writes is nearly full, or can't be written.
func (b *Builder) checkDisks(ctx context.Context, t tool) error {
	installed, err := gobuild.Installed(ctx)
	if err != nil {
		return err
	}
	folders := append([]string{b.toolFolder(), installed.BuildCache}, t.write...)
	if t.online {
		folders = append(folders, installed.ModuleCache)
	}
	for _, folder := range folders {
		if err := environmentError(checkDisk(folder, roomNeeded)); errors.As(err, new(*EnvironmentError)) {
			return err
		}
	}
	return nil
}

// checkDisk returns an error if the disk of a folder has less free space than needed, in bytes, or can't be written.
func checkDisk(folder string, needed uint64) (err error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(folder, &disk); err != nil {
		return fmt.Errorf("checking the disk of %s: %w", folder, err)
	}
	if disk.Bavail*uint64(disk.Bsize) < needed { //nolint:gosec // sizes are not negative
		return fmt.Errorf("checking the disk of %s: %w", folder, syscall.ENOSPC)
	}
	file, err := os.CreateTemp(folder, "room-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = io.CopyN(file, rand.Reader, roomTried)
	return errors.Join(err, file.Sync(), file.Close())
}
