// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// From linux/landlock.h. The system calls have these numbers on all architectures that Go knows.
const (
	sysLandlockAddRule = 445

	landlockVersion  = 1 << 0 // LANDLOCK_CREATE_RULESET_VERSION
	landlockBeneath  = 1      // LANDLOCK_RULE_PATH_BENEATH
	landlockPort     = 2      // LANDLOCK_RULE_NET_PORT
	landlockConnect  = 1 << 1 // LANDLOCK_ACCESS_NET_CONNECT_TCP
	landlockAbstract = 1 << 0 // LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET

	landlockExecute  = 1 << 0
	landlockWrite    = 1 << 1
	landlockRead     = 1 << 2
	landlockList     = 1 << 3
	landlockRefer    = 1 << 13
	landlockTruncate = 1 << 14
	landlockDevices  = 1 << 15 // LANDLOCK_ACCESS_FS_IOCTL_DEV

	// landlockFirst is everything that the first version supports.
	landlockFirst = 1<<13 - 1
	// landlockOfFiles is the access that a rule of a file may allow.
	landlockOfFiles  = landlockExecute | landlockWrite | landlockRead | landlockTruncate
	landlockReadOnly = landlockExecute | landlockRead | landlockList
	openPath         = 0x200000 // O_PATH

	truncateABI = 3 // Linux 6.2
)

// landlockABI returns the version of Landlock's interface, or 0 if the kernel has none or does not use it.
func landlockABI() int {
	version, _, failed := syscall.RawSyscall(sysLandlockCreateRuleset, 0, 0, landlockVersion)
	if failed != 0 {
		return 0
	}
	return int(version)
}

// ruleset creates the rules of walls, as far as the kernel supports them, and returns which walls they are.
func (w *Walls) ruleset() (descriptor int, built Built, err error) {
	attributes := struct{ files, network, scoped uint64 }{files: landlockFirst}
	network := !w.OwnNetwork && w.Without&Network == 0
	size := unsafe.Sizeof(attributes.files)
	abi := landlockABI()
	switch { // each version supports everything that the one before it did
	case abi >= 6:
		attributes.scoped, size = landlockScopeSignal|landlockAbstract, unsafe.Sizeof(attributes)
		fallthrough
	case abi >= 5:
		attributes.files |= landlockDevices
		fallthrough
	case abi >= 4:
		if network {
			attributes.network, size = landlockConnect, max(size, 2*unsafe.Sizeof(attributes.files))
			built |= Network
		}
		fallthrough
	case abi >= truncateABI:
		attributes.files |= landlockTruncate
		fallthrough
	case abi >= 2:
		attributes.files |= landlockRefer
	case abi == 0:
		return -1, 0, syscall.EOPNOTSUPP
	}
	if w.Without&Files != 0 {
		attributes.files = 0
	}
	made, _, failed := syscall.RawSyscall(sysLandlockCreateRuleset, uintptr(unsafe.Pointer(&attributes)), size, 0)
	if failed != 0 {
		return -1, 0, failed
	}
	rules := int(made)
	if w.Without&Files == 0 {
		if abi >= truncateABI { // before that, any file of the user can be emptied
			built |= Files
		}
		err = w.allowFiles(rules, attributes.files)
	}
	if built&Network != 0 {
		for _, port := range w.Connect {
			err = errors.Join(err, allowPort(rules, port))
		}
	}
	if err != nil {
		return -1, 0, errors.Join(err, syscall.Close(rules))
	}
	return rules, built, nil
}

// allowFiles allows everything that the program may read or write, as far as the rules restrict it.
func (w *Walls) allowFiles(rules int, handled uint64) (err error) {
	for _, path := range w.Read {
		err = errors.Join(err, allowBelow(rules, path, landlockReadOnly&handled))
	}
	// Landlock by itself guards what other processes of the user show there. Nothing may be written, because root could
	// change the machine by /proc/sys, without any capability. The descriptors of a program are links there, and the rules
	// of the linked files apply to them.
	err = errors.Join(err, allowBelow(rules, "/proc", (landlockRead|landlockList)&handled))
	for _, path := range devices {
		err = errors.Join(err, allowBelow(rules, path, (landlockRead|landlockWrite|landlockTruncate)&handled))
	}
	for _, path := range w.Write {
		err = errors.Join(err, allowBelow(rules, path, handled&^landlockDevices))
	}
	return err
}

// allowBelow allows access below a folder, or to a file. It skips an inaccessible path.
func allowBelow(rules int, path string, allowed uint64) error {
	parent, err := syscall.Open(path, openPath|syscall.O_CLOEXEC, 0)
	if isInaccessible(err) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(parent)
	var status syscall.Stat_t
	if err := syscall.Fstat(parent, &status); err != nil {
		return err
	}
	if status.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		allowed &= landlockOfFiles
	}
	// The kernel's struct landlock_path_beneath_attr is packed, unlike Go's structs.
	rule := struct {
		allowed [2]uint32
		parent  int32
	}{parent: int32(parent)}
	*(*uint64)(unsafe.Pointer(&rule.allowed)) = allowed
	return addRule(rules, landlockBeneath, unsafe.Pointer(&rule))
}

func allowPort(rules, port int) error {
	rule := struct{ allowed, port uint64 }{landlockConnect, uint64(port)}
	return addRule(rules, landlockPort, unsafe.Pointer(&rule))
}

func addRule(rules int, kind uintptr, rule unsafe.Pointer) error {
	if _, _, failed := syscall.RawSyscall6(sysLandlockAddRule, uintptr(rules), kind, uintptr(rule), 0, 0, 0); failed != 0 {
		return failed
	}
	return nil
}

// enforce builds the walls around this thread, and all that it starts from now on, as far as the kernel can, and
// returns those that it has built. This thread must not be able to get new privileges (setNoNewPrivs).
func (w *Walls) enforce() (built Built) {
	dropCapabilities()
	if rules, enforced, err := w.ruleset(); err == nil {
		if _, _, failed := syscall.RawSyscall(sysLandlockRestrictSelf, uintptr(rules), 0, 0); failed == 0 {
			built = enforced
		}
		_ = syscall.Close(rules)
	}
	if !w.OwnNetwork && w.Without&Network == 0 && limitSockets() != nil {
		built &^= Network // there are sockets other than those of TCP
	}
	if len(w.Calls) > 0 && w.Without&Calls == 0 && loadFilter(w.filter()) == nil {
		built |= Calls
	}
	return built
}

// filter returns w.Calls as instructions.
func (w *Walls) filter() []syscall.SockFilter {
	const size = int(unsafe.Sizeof(syscall.SockFilter{}))
	filter := make([]syscall.SockFilter, len(w.Calls)/size)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(filter))), len(filter)*size), w.Calls)
	return filter
}

// dropCapabilities removes the capabilities of this thread and of the programs that it executes. A user who is root in
// a user namespace would have all of them there, and could change what is mounted.
func dropCapabilities() {
	const boundingDrop, last = 24, 63 // PR_CAPBSET_DROP
	for capability := uintptr(0); capability <= last; capability++ {
		_ = control(boundingDrop, capability) // EPERM: it has none to pass on; EINVAL: there are no more
	}
	header := struct {
		version uint32
		thread  int32
	}{version: 0x20080522} // _LINUX_CAPABILITY_VERSION_3
	var none [2]struct{ effective, permitted, inheritable uint32 }
	_, _, _ = syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0)
}

// limitSockets leaves a program the sockets of TCP, and those by which it asks for the machine's addresses. Landlock
// does not restrict the others, nor a connection that begins with its first data. A call for io_uring(7), which creates
// sockets past all filters, is refused as on a kernel without it. Go and others work without the refused calls.
func limitSockets() error {
	native, known := auditArchitectures[runtime.GOARCH]
	if !known {
		return syscall.ENOSYS
	}
	const (
		first, second, third, fourth = argumentsAt, argumentsAt + argument, argumentsAt + 2*argument, argumentsAt + 3*argument

		ioUringSetup = 425
		fastOpen     = 0x20000000 // MSG_FASTOPEN
		typeMask     = 0xf        // SOCK_TYPE_MASK
	)
	return loadFilter(assemble([]instruction{
		{code: load, k: architectureAt},
		{code: equal, k: native, no: "allow"}, // keepLimits ends the program
		{code: load, k: numberAt},
		{code: equal, k: syscall.SYS_SOCKET, yes: "socket"},
		{code: equal, k: syscall.SYS_SOCKETPAIR, yes: "pair"},
		{code: equal, k: ioUringSetup, yes: "missing"},
		{code: equal, k: syscall.SYS_SENDMSG, yes: "flags third"},
		{code: equal, k: syscall.SYS_SENDTO, yes: "flags fourth"},
		{code: equal, k: sendmmsg[runtime.GOARCH], yes: "flags fourth", no: "allow"},

		{label: "socket", code: load, k: first},
		{code: equal, k: syscall.AF_NETLINK, yes: "netlink"},
		{code: equal, k: syscall.AF_INET, yes: "internet"},
		{code: equal, k: syscall.AF_INET6, no: "refuse"},
		{label: "internet", code: load, k: second},
		{code: and, k: typeMask},
		{code: equal, k: syscall.SOCK_STREAM, no: "refuse"},
		{code: load, k: third},
		{code: equal, k: 0, yes: "allow"},
		{code: equal, k: syscall.IPPROTO_TCP, yes: "allow", no: "no protocol"},

		{label: "netlink", code: load, k: third},
		{code: equal, k: syscall.NETLINK_ROUTE, yes: "allow", no: "refuse"},

		// A pair of datagram sockets can send to any other Unix socket for datagrams. A pair of stream sockets stays
		// connected.
		{label: "pair", code: load, k: second},
		{code: and, k: typeMask},
		{code: equal, k: syscall.SOCK_STREAM, yes: "allow"},
		{code: equal, k: syscall.SOCK_SEQPACKET, yes: "allow", no: "refuse"},

		{label: "flags third", code: load, k: third},
		{code: isSet, k: fastOpen, yes: "refuse", no: "allow"},
		{label: "flags fourth", code: load, k: fourth},
		{code: isSet, k: fastOpen, yes: "refuse", no: "allow"},

		{label: "allow", code: answer, k: seccompAllow},
		{label: "refuse", code: answer, k: seccompError | uint32(syscall.EACCES)},
		{label: "missing", code: answer, k: seccompError | uint32(syscall.ENOSYS)},
		{label: "no protocol", code: answer, k: seccompError | uint32(syscall.EPROTONOSUPPORT)},
	}))
}

// sendmmsg contains the numbers of sendmmsg(2), which package syscall does not have.
var sendmmsg = map[string]uint32{"amd64": 307, "arm64": 269, "loong64": 269, "ppc64le": 349, "riscv64": 269}
