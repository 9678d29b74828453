// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package filelock lets one command at a time do something, with a lock on a file (flock(2)) that the kernel releases
// when its holder ends, however it ends. The file is never removed: two commands could hold the lock at once if it were
// removed while others wait for it.
//
// All files are opened for writing: NFS translates these locks to those of fcntl(2), which require it.
//
// github.com/gofrs/flock does this, too, but polls while it waits. Here the kernel wakes the next waiter.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrHeld is returned when another process holds the lock.
var ErrHeld = errors.New("another process holds the lock")

// Wait waits until it holds the exclusive lock of a file, which it creates if need be. The error is the cause of a
// context that ends first, or the reason why the file can't be locked.
func Wait(ctx context.Context, name string) (unlock func(), err error) {
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	held := make(chan error, 1)
	go func() { held <- flock(file, syscall.LOCK_EX) }()
	select {
	case err = <-held:
	case <-ctx.Done():
		// The system call continues to wait. When it gets the lock, the lock is no longer needed.
		go func() {
			<-held //nolint:errcheck // either way it is given back
			file.Close()
		}()
		return nil, context.Cause(ctx)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return func() { release(file) }, nil
}

// release releases the lock. Closing the file alone is not enough, because a process that another goroutine starts also
// has the file open until it executes its program.
func release(file *os.File) {
	_ = flock(file, syscall.LOCK_UN)
	file.Close()
}

// Try takes the lock of a file, which it creates if need be. The error is ErrHeld if another process holds it.
func Try(name string) (unlock func(), err error) {
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	if err := TryLockExclusive(file); err != nil {
		file.Close()
		return nil, err
	}
	return func() { release(file) }, nil
}

func open(name string) (*os.File, error) { return os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600) }

func flock(file *os.File, operation int) error {
	for {
		err := syscall.Flock(int(file.Fd()), operation)
		if err == nil {
			return nil
		}
		if errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOTSUP) {
			err = fmt.Errorf("%w: the file system does not support locks: "+
				"clone to a local disk, or start the lock service of the NFS server", err)
		}
		if !errors.Is(err, syscall.EINTR) {
			return &os.PathError{Op: "lock", Path: file.Name(), Err: err}
		}
	}
}

// LockShared takes a shared lock of an open file. It waits for a holder of the exclusive lock. The lock ends when the
// file is closed.
func LockShared(file *os.File) error { return flock(file, syscall.LOCK_SH) }

// LockExclusive takes the exclusive lock of an open file or folder. It waits for all other holders. The lock ends when
// the file is closed.
func LockExclusive(file *os.File) error { return flock(file, syscall.LOCK_EX) }

// TryLockExclusive takes the exclusive lock of an open file. The error is ErrHeld if the file is locked already. The
// lock ends when the file is closed.
func TryLockExclusive(file *os.File) error {
	err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	return err
}
