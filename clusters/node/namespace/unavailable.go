// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package namespace

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Unavailable reports that this machine allows no namespaces, why, and what to do.
type Unavailable struct {
	// Reason is a clause: "user namespaces are turned off on this machine".
	Reason string
	// Remedy is what the user can do: "let root run …".
	Remedy string
	Err    error
}

func (u *Unavailable) Error() string {
	text := u.Reason
	if u.Remedy != "" {
		text += ": " + u.Remedy
	}
	if cause := u.Err; cause != nil {
		if failed, ok := errors.AsType[*fs.PathError](cause); ok { // its path is the one of our own program
			cause = failed.Err
		}
		text += " (" + cause.Error() + ")"
	}
	return text
}

func (u *Unavailable) Unwrap() error { return u.Err }

// system is the folder in which the kernel reports its settings, proc(5). Tests replace it.
var system = os.DirFS("/proc")

// filtered reports whether a seccomp filter or a profile of AppArmor confines this process, as those of a container do.
// Neither can be lifted from within.
func filtered() bool {
	status, _ := fs.ReadFile(system, "self/status") // a process whose status can't be read counts as one without a filter
	for line := range strings.Lines(string(status)) {
		const filter = "2" // SECCOMP_MODE_FILTER
		if mode, ok := strings.CutPrefix(line, "Seccomp:"); ok && strings.TrimSpace(mode) == filter {
			return true
		}
	}
	profile, err := fs.ReadFile(system, "self/attr/current")
	name := strings.TrimRight(string(profile), "\x00\n ")
	return err == nil && strings.HasSuffix(name, "(enforce)")
}

// Explain turns the error of creating a namespace, or of the first action in one, into an *Unavailable. It returns
// other errors, such as that of a missing program, unchanged.
func Explain(err error) error {
	var known *Unavailable
	if err == nil || errors.As(err, &known) {
		return err
	}
	setting := func(name string) (int, bool) {
		content, readErr := fs.ReadFile(system, name)
		number, parseErr := strconv.Atoi(strings.TrimSpace(string(content)))
		return number, readErr == nil && parseErr == nil
	}
	is := func(name string, want int) bool {
		value, found := setting(name)
		return found && value == want
	}
	for _, name := range []string{"user", "mnt", "net", "pid", "ipc", "uts"} {
		if is("sys/user/max_"+name+"_namespaces", 0) && errors.Is(err, syscall.ENOSPC) {
			return &Unavailable{
				"this machine allows no namespaces of the kind " + name,
				"let root run: sysctl user.max_" + name + "_namespaces=15000", err,
			}
		}
	}
	refused := errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return &Unavailable{
			"the machine's limit of namespaces has been reached",
			"end the processes that hold them (see lsns), or let root raise sysctl user.max_user_namespaces", err,
		}
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSYS):
		return &Unavailable{"this machine's kernel lacks namespaces, or is too old", "Linux 5.12 or later is needed", err}
	case refused && is("sys/kernel/unprivileged_userns_clone", 0):
		return &Unavailable{
			"only root can create user namespaces on this machine",
			"let root run: sysctl kernel.unprivileged_userns_clone=1",
			err,
		}
	case refused && is("sys/kernel/apparmor_restrict_unprivileged_userns", 1) && !filtered():
		return &Unavailable{
			"AppArmor restricts unprivileged user namespaces, as Ubuntu has done since 24.04",
			"let root run: sysctl kernel.apparmor_restrict_unprivileged_userns=0, " +
				"until the next restart (docs/reference/machines.md has what lasts)", err,
		}
	case refused:
		return &Unavailable{
			"this process is not allowed to create namespaces, as in a container without privileges",
			"run it on the machine itself, or start the container with --privileged", err,
		}
	}
	return err
}
