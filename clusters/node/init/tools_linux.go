// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
)

// owners runs a command for which chown and setuid succeed and do nothing.
func owners(command []string) error {
	if len(command) < 2 {
		return errors.New("usage: operator-labs-owners FILE NAME [ARGUMENT...]")
	}
	runtime.LockOSThread()
	// With no_new_privs, a process needs no capability to load a filter.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := container.PretendOwners(); err != nil {
		return err
	}
	return syscall.Exec(command[0], command[1:], os.Environ())
}

// pause waits for a signal that ends it, and reaps the orphans of its Pod.
func pause([]string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGCHLD)
	for s := range signals {
		if s != unix.SIGCHLD {
			return nil
		}
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
	return nil
}

// mountFlags are the options of mount(8) that are flags of mount(2), and not options of the file system.
var mountFlags = map[string]struct {
	set, clear uintptr
}{
	"ro":       {unix.MS_RDONLY, 0},
	"rw":       {0, unix.MS_RDONLY},
	"nosuid":   {unix.MS_NOSUID, 0},
	"nodev":    {unix.MS_NODEV, 0},
	"noexec":   {unix.MS_NOEXEC, 0},
	"relatime": {unix.MS_RELATIME, 0},
	"noatime":  {unix.MS_NOATIME, 0},
	"bind":     {unix.MS_BIND, 0},
	"rbind":    {unix.MS_BIND | unix.MS_REC, 0},
	"remount":  {unix.MS_REMOUNT, 0},
	"defaults": {0, 0},
	"shared":   {unix.MS_SHARED, 0},
	"rshared":  {unix.MS_SHARED | unix.MS_REC, 0},
	"slave":    {unix.MS_SLAVE, 0},
	"rslave":   {unix.MS_SLAVE | unix.MS_REC, 0},
	"private":  {unix.MS_PRIVATE, 0},
	"rprivate": {unix.MS_PRIVATE | unix.MS_REC, 0},
}

// mountCall has the arguments of a command line of mount(8).
type mountCall struct {
	source, target, kind, data string
	flags                      uintptr
}

func parseMount(arguments []string) (c mountCall, err error) {
	var options, paths []string
	for i := 0; i < len(arguments); i++ {
		switch argument := arguments[i]; {
		case (argument == "-t" || argument == "-o") && i+1 < len(arguments):
			i++
			if argument == "-t" {
				c.kind = arguments[i]
			} else {
				options = append(options, strings.Split(arguments[i], ",")...)
			}
		case argument == "-c", argument == "--no-canonicalize":
		case strings.HasPrefix(argument, "--make-"):
			options = append(options, strings.TrimPrefix(argument, "--make-"))
		case argument == "--bind", argument == "--rbind":
			options = append(options, strings.TrimPrefix(argument, "--"))
		case strings.HasPrefix(argument, "-"):
			return c, fmt.Errorf("unsupported option of mount: %s", argument)
		default:
			paths = append(paths, argument)
		}
	}
	var data []string
	for _, option := range options {
		flag, known := mountFlags[option]
		if !known {
			data = append(data, option)
			continue
		}
		c.flags = c.flags&^flag.clear | flag.set
	}
	c.data = strings.Join(data, ",")
	switch len(paths) {
	case 1:
		c.target = paths[0]
	case 2:
		c.source, c.target = paths[0], paths[1]
	default:
		return c, errors.New("usage: mount [OPTION...] [SOURCE] TARGET")
	}
	return c, nil
}

func mount(arguments []string) error {
	c, err := parseMount(arguments)
	if err != nil {
		return err
	}
	err = unix.Mount(c.source, c.target, c.kind, c.flags, c.data)
	if errors.Is(err, unix.EINVAL) && strings.Contains(c.data, "noswap") {
		// Only root on the machine may prevent memory from being swapped out.
		data := strings.Trim(strings.ReplaceAll(","+c.data, ",noswap", ""), ",")
		err = unix.Mount(c.source, c.target, c.kind, c.flags, data)
	}
	if err != nil {
		return fmt.Errorf("mounting %s at %s: %w", c.source, c.target, err)
	}
	return nil
}

func umount(arguments []string) error {
	flags := unix.UMOUNT_NOFOLLOW
	for _, argument := range arguments {
		switch {
		case argument == "-f":
			flags |= unix.MNT_FORCE
		case argument == "-l":
			flags |= unix.MNT_DETACH
		case strings.HasPrefix(argument, "-"):
			return fmt.Errorf("unsupported option of umount: %s", argument)
		default:
			if err := unix.Unmount(argument, flags); err != nil {
				// These are util-linux's words, which the kubelet looks for.
				if errors.Is(err, unix.EINVAL) {
					return fmt.Errorf("%s: not mounted", argument)
				}
				return fmt.Errorf("%s: %w", argument, err)
			}
		}
	}
	return nil
}
