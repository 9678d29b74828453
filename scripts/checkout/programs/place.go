// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package programs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"lva.io/operators/clusters/filelock"
)

// UnsuitableError is the reason why a folder can't hold a checkout.
type UnsuitableError struct {
	// Reason is a clause: "its file system has no sockets". Remedy is a sentence.
	Reason, Remedy string
}

func (e *UnsuitableError) Error() string {
	return fmt.Sprintf("the course can't be used in this folder: %s. %s", e.Reason, e.Remedy)
}

// CheckLocation tests whether building and grading can work in the checkout at root: it creates a link, a program, a
// socket and a lock there, and removes them. It takes a few milliseconds. The error is a *UnsuitableError.
func CheckLocation(root string) error {
	const home = "Clone into a folder of your home, on a file system of Linux."
	if strings.ContainsRune(root, filepath.ListSeparator) {
		return &UnsuitableError{"its path " + root + " has a colon, which PATH can't hold", "Move the clone."}
	}
	cache := filepath.Join(root, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return &UnsuitableError{err.Error(), "Make the folder yours, or free some space."}
	}
	dir, err := os.MkdirTemp(cache, "place-")
	if err != nil {
		return &UnsuitableError{err.Error(), "Make the folder yours, or free some space."}
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "program")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
		return &UnsuitableError{err.Error(), "Free some space."}
	}
	if err := exec.Command(script).Run(); err != nil { //nolint:noctx // it does nothing
		return &UnsuitableError{"no program may run there (noexec), or its files have no permissions", home}
	}
	if err := os.Symlink("target", filepath.Join(dir, "link")); err != nil {
		return &UnsuitableError{"its file system has no symbolic links", home}
	}
	if err := listenIn(dir); err != nil {
		return &UnsuitableError{"its file system has no sockets", home}
	}
	unlock, err := filelock.Try(filepath.Join(dir, "lock"))
	if err != nil {
		return &UnsuitableError{
			"its file system does not support locks",
			"Clone to a local disk, or start the lock service of the NFS server.",
		}
	}
	unlock()
	return nil
}

// listenIn creates a socket in a folder and closes it. The name of a socket has 108 bytes at most, which the path of a
// clone may exceed, so the socket is named by a descriptor of the folder.
func listenIn(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer opened.Close()
	name := filepath.Join(dir, "socket")
	if short := fmt.Sprintf("/proc/self/fd/%d", opened.Fd()); exists(short) {
		name = short + "/socket"
	}
	listener, err := net.Listen("unix", name) //nolint:noctx // it is closed at once
	if err != nil {
		return err
	}
	return listener.Close()
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
