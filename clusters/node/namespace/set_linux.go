// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package namespace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Set holds the namespaces that the containers of a Pod share. It needs no process: each namespace is pinned, which
// means that its file in /proc is mounted on a file of its own (namespaces(7)), so that it exists until Close. The
// folder is enough to find the namespaces again.
//
// Other runtimes keep a process for this, the pause container. Here one is only needed where the PID namespace is
// shared, too.
type Set struct {
	// Dir holds a file for each namespace: "net", "ipc", "uts".
	Dir string
}

// kinds maps the kinds of shared namespaces to the flags for entering them.
var kinds = map[string]int{"net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS}

// NewSet creates IPC and UTS namespaces with a host name, and pins them in a new folder.
func NewSet(dir, hostname string) (*Set, error) {
	s := &Set{Dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	err := OnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWIPC | unix.CLONE_NEWUTS); err != nil {
			return fmt.Errorf("creating the namespaces of a Pod: %w", err)
		}
		if hostname != "" {
			if err := unix.Sethostname([]byte(hostname)); err != nil {
				return fmt.Errorf("setting a Pod's hostname to %q: %w", hostname, err)
			}
		}
		return errors.Join(s.pin("ipc", "/proc/thread-self/ns/ipc"), s.pin("uts", "/proc/thread-self/ns/uts"))
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// PinNetwork pins the network namespace of the file.
func (s *Set) PinNetwork(network *os.File) error {
	return s.pin("net", fmt.Sprintf("/proc/self/fd/%d", network.Fd()))
}

func (s *Set) pin(kind, source string) error {
	target := filepath.Join(s.Dir, kind)
	if err := os.WriteFile(target, nil, 0o400); err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("keeping the %s namespace of a Pod: %w", kind, err)
	}
	return nil
}

// Open opens a namespace of the set.
func (s *Set) Open(kind string) (*os.File, error) { return os.Open(filepath.Join(s.Dir, kind)) }

// Do runs a function in the set's namespaces of these kinds. Sockets that the function creates stay in the network.
func (s *Set) Do(f func() error, kinds ...string) error {
	return OnThread(func() error {
		for _, kind := range kinds {
			file, err := s.Open(kind)
			if err != nil {
				return err
			}
			err = Join(file, kind)
			if err := errors.Join(err, file.Close()); err != nil {
				return err
			}
		}
		return f()
	})
}

// Join moves the thread, which must be locked, into a namespace.
func Join(file *os.File, kind string) error {
	if err := unix.Setns(int(file.Fd()), kinds[kind]); err != nil {
		return fmt.Errorf("entering the %s namespace of a Pod: %w", kind, err)
	}
	return nil
}

// Set sets a kernel parameter (sysctl(8)) of the network or IPC namespace.
func (s *Set) Set(parameter, value string) error {
	return s.Do(func() error {
		return os.WriteFile("/proc/sys/"+strings.ReplaceAll(parameter, ".", "/"), []byte(value), 0o644)
	}, "net", "ipc", "uts")
}

// Close unpins the namespaces. They end with the last process in them.
func (s *Set) Close() error {
	var problems []error
	for kind := range kinds {
		if err := unix.Unmount(filepath.Join(s.Dir, kind), unix.MNT_DETACH); err != nil &&
			!errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			problems = append(problems, fmt.Errorf("releasing the %s namespace of a Pod: %w", kind, err))
		}
	}
	return errors.Join(append(problems, os.RemoveAll(s.Dir))...)
}
