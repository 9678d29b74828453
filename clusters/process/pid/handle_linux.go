// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pid

import "syscall"

// The system calls have these numbers on all architectures that Go knows. Package os has handles too, but first finds
// out whether they work, for which it starts a process.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

// signalProcessGroup is PIDFD_SIGNAL_PROCESS_GROUP of linux/pidfd.h, since Linux 6.9.
const signalProcessGroup = 1 << 2

// Handle refers to a process. Where the kernel has no handles (before Linux 5.3), or no descriptor is left, it only has
// the process number.
type Handle struct{ number, descriptor int }

// Open returns a handle of the process that has a number. The caller must close it. If no such process exists, ok is
// false, and nothing has to be closed.
func Open(number int) (h Handle, ok bool) {
	descriptor, _, err := syscall.RawSyscall(sysPidfdOpen, uintptr(number), 0, 0)
	switch err {
	case 0:
		return Handle{number, int(descriptor)}, true
	case syscall.ESRCH, syscall.EINVAL, syscall.ENOENT: // the last two: it is a thread of another process
		return Handle{number, -1}, false
	}
	return Handle{number, -1}, true
}

// Close closes the handle.
func (h Handle) Close() {
	if h.descriptor >= 0 {
		_ = syscall.Close(h.descriptor)
	}
}

// SignalGroup signals the process group that the process leads, and reports whether the process still existed. Before
// Linux 6.9 it counts as existing until the leader is reaped.
func (h Handle) SignalGroup(signal syscall.Signal) bool {
	if h.descriptor >= 0 {
		descriptor := uintptr(h.descriptor)
		_, _, err := syscall.RawSyscall6(sysPidfdSendSignal, descriptor, uintptr(signal), 0, signalProcessGroup, 0, 0)
		if err != syscall.EINVAL {
			return err == 0
		}
		if !h.Signal(0) {
			return false
		}
	}
	return syscall.Kill(-h.number, signal) == nil
}

// Signal signals the process, and reports whether it was still there.
func (h Handle) Signal(signal syscall.Signal) bool {
	if h.descriptor < 0 {
		return syscall.Kill(h.number, signal) == nil
	}
	_, _, err := syscall.RawSyscall6(sysPidfdSendSignal, uintptr(h.descriptor), uintptr(signal), 0, 0, 0, 0)
	return err == 0
}
