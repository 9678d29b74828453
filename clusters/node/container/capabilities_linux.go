// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilities are the capabilities of Linux 6 by name (capabilities(7)).
var capabilities = map[string]int{
	"CHOWN":              unix.CAP_CHOWN,
	"DAC_OVERRIDE":       unix.CAP_DAC_OVERRIDE,
	"DAC_READ_SEARCH":    unix.CAP_DAC_READ_SEARCH,
	"FOWNER":             unix.CAP_FOWNER,
	"FSETID":             unix.CAP_FSETID,
	"KILL":               unix.CAP_KILL,
	"SETGID":             unix.CAP_SETGID,
	"SETUID":             unix.CAP_SETUID,
	"SETPCAP":            unix.CAP_SETPCAP,
	"LINUX_IMMUTABLE":    unix.CAP_LINUX_IMMUTABLE,
	"NET_BIND_SERVICE":   unix.CAP_NET_BIND_SERVICE,
	"NET_BROADCAST":      unix.CAP_NET_BROADCAST,
	"NET_ADMIN":          unix.CAP_NET_ADMIN,
	"NET_RAW":            unix.CAP_NET_RAW,
	"IPC_LOCK":           unix.CAP_IPC_LOCK,
	"IPC_OWNER":          unix.CAP_IPC_OWNER,
	"SYS_MODULE":         unix.CAP_SYS_MODULE,
	"SYS_RAWIO":          unix.CAP_SYS_RAWIO,
	"SYS_CHROOT":         unix.CAP_SYS_CHROOT,
	"SYS_PTRACE":         unix.CAP_SYS_PTRACE,
	"SYS_PACCT":          unix.CAP_SYS_PACCT,
	"SYS_ADMIN":          unix.CAP_SYS_ADMIN,
	"SYS_BOOT":           unix.CAP_SYS_BOOT,
	"SYS_NICE":           unix.CAP_SYS_NICE,
	"SYS_RESOURCE":       unix.CAP_SYS_RESOURCE,
	"SYS_TIME":           unix.CAP_SYS_TIME,
	"SYS_TTY_CONFIG":     unix.CAP_SYS_TTY_CONFIG,
	"MKNOD":              unix.CAP_MKNOD,
	"LEASE":              unix.CAP_LEASE,
	"AUDIT_WRITE":        unix.CAP_AUDIT_WRITE,
	"AUDIT_CONTROL":      unix.CAP_AUDIT_CONTROL,
	"SETFCAP":            unix.CAP_SETFCAP,
	"MAC_OVERRIDE":       unix.CAP_MAC_OVERRIDE,
	"MAC_ADMIN":          unix.CAP_MAC_ADMIN,
	"SYSLOG":             unix.CAP_SYSLOG,
	"WAKE_ALARM":         unix.CAP_WAKE_ALARM,
	"BLOCK_SUSPEND":      unix.CAP_BLOCK_SUSPEND,
	"AUDIT_READ":         unix.CAP_AUDIT_READ,
	"PERFMON":            unix.CAP_PERFMON,
	"BPF":                unix.CAP_BPF,
	"CHECKPOINT_RESTORE": unix.CAP_CHECKPOINT_RESTORE,
}

// AllCapabilities returns the names of all capabilities.
func AllCapabilities() []string { return slices.Sorted(maps.Keys(capabilities)) }

// WithCapabilities returns the list with some capabilities added and some dropped. "ALL" means all capabilities. A name
// may begin with CAP_.
func WithCapabilities(list, add, drop []string) ([]string, error) {
	has := map[string]bool{}
	for _, name := range list {
		has[name] = true
	}
	all := func(value bool) {
		for name := range capabilities {
			has[name] = value
		}
	}
	change := func(names []string, value bool) error {
		for _, name := range names {
			name = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
			if _, known := capabilities[name]; !known && name != "ALL" {
				return fmt.Errorf("unknown capability %q (see capabilities(7))", name)
			}
			if name != "ALL" {
				has[name] = value
			}
		}
		return nil
	}
	// Like other container runtimes, apply ALL first and then the names, so that "drop ALL, add CHOWN" results in CHOWN
	// alone.
	if slices.Contains(drop, "ALL") {
		all(false)
	}
	if slices.Contains(add, "ALL") {
		all(true)
	}
	if err := errors.Join(change(drop, false), change(add, true)); err != nil {
		return nil, err
	}
	var result []string
	for _, name := range AllCapabilities() {
		if has[name] {
			result = append(result, name)
		}
	}
	return result, nil
}

// limitCapabilities removes all other capabilities from the bounding set. At the next exec, root gets all that are left
// in the set, and other users get none.
func limitCapabilities(keep []string) error {
	var kept uint64
	for _, name := range keep {
		kept |= 1 << capabilities[name]
	}
	const most = 63
	for capability := range most {
		if kept&(1<<capability) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // this kernel has no further capabilities
		} else if err != nil {
			return fmt.Errorf("dropping a capability: %w", err)
		}
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// dropCapabilities removes all but the listed capabilities now. A program that does not run as root, or that starts no
// other program, needs no more.
func dropCapabilities(keep []string) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, name := range keep {
		number := capabilities[name]
		data[number/32].Permitted |= 1 << (number % 32)
		data[number/32].Effective |= 1 << (number % 32)
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}
