// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// missing lists the names in the profile that an architecture has no call for. Add a name from a later profile only if
// the kernel's table for the architecture does not have it.
var missing = map[*arch.Info][]string{
	arch.X86_64: strings.Fields(`
		_llseek _newselect arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush chown32 clock_adjtime64
		clock_getres_time64 clock_gettime64 clock_nanosleep_time64 clock_settime64 fadvise64_64 fchown32 fcntl64
		fstat64 fstatat64 fstatfs64 ftruncate64 futex_time64 getegid32 geteuid32 getgid32 getgroups32 getresgid32
		getresuid32 getuid32 io_pgetevents_time64 ipc lchown32 lstat64 mmap2 mq_timedreceive_time64
		mq_timedsend_time64 ppoll_time64 pselect6_time64 recv recvmmsg_time64 riscv_flush_icache riscv_hwprobe
		rt_sigtimedwait_time64 s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr sched_rr_get_interval_time64
		semtimedop_time64 send sendfile64 set_tls setfsgid32 setfsuid32 setgid32 setgroups32 setregid32 setresgid32
		setresuid32 setreuid32 setuid32 sigprocmask sigreturn socketcall stat64 statfs64 stime swapcontext
		sync_file_range2 timer_gettime64 timer_settime64 timerfd_gettime64 timerfd_settime64 truncate64 ugetrlimit
		umount utimensat_time64 waitpid`),
	arch.AARCH64: strings.Fields(`
		_llseek _newselect access alarm arch_prctl arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush chmod
		chown chown32 creat dup2 epoll_create epoll_ctl_old epoll_wait epoll_wait_old eventfd fadvise64_64 fchown32
		fcntl64 fork fstat64 fstatat64 fstatfs64 ftruncate64 futimesat get_thread_area getdents getegid32 geteuid32
		getgid32 getgroups32 getpgrp getresgid32 getresuid32 getuid32 inotify_init ioperm iopl ipc lchown lchown32
		link lstat lstat64 mkdir mknod mmap2 modify_ldt open pause pipe poll readlink recv rename riscv_flush_icache
		riscv_hwprobe rmdir s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr select send sendfile64
		set_thread_area set_tls setfsgid32 setfsuid32 setgid32 setgroups32 setregid32 setresgid32 setresuid32
		setreuid32 setuid32 signalfd sigprocmask sigreturn socketcall stat stat64 statfs64 stime swapcontext symlink
		sync_file_range2 time truncate64 ugetrlimit umount unlink uretprobe utime utimes vfork waitpid`),
}

const (
	// administration lists calls that are refused with any arguments.
	administration = `
		unshare setns mount umount2 pivot_root fsopen fsconfig fsmount fspick move_mount open_tree mount_setattr
		keyctl add_key request_key bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
		kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct quotactl
		settimeofday clock_settime syslog sethostname setdomainname open_by_handle_at fanotify_init pidfd_getfd
		process_madvise kcmp get_mempolicy set_mempolicy mbind move_pages migrate_pages vhangup`
	// ordinary lists calls that shells, debuggers and programs in Go and C make. ordinaryOfAMD64 lists older ones that
	// arm64 never had.
	ordinary = `
		execve exit exit_group wait4 waitid kill tgkill getpid gettid prlimit64 prctl seccomp ptrace brk mmap
		munmap mprotect madvise mincore mremap futex set_robust_list rseq set_tid_address membarrier rt_sigaction
		rt_sigprocmask rt_sigreturn sigaltstack sched_getaffinity sched_yield nanosleep clock_gettime timer_create
		timer_settime timer_delete setitimer getrandom uname openat read write pread64 close dup3 pipe2 fcntl
		ioctl lseek newfstatat fstat statx statfs getdents64 readlinkat faccessat faccessat2 mkdirat unlinkat
		renameat2 linkat symlinkat fchmodat fchownat utimensat ftruncate fsync flock getcwd chdir umask chroot
		splice copy_file_range sendfile memfd_create epoll_create1 epoll_ctl epoll_pwait eventfd2 ppoll pselect6
		inotify_init1 inotify_add_watch bind listen connect accept4 sendto recvfrom sendmsg recvmsg setsockopt
		getsockopt getsockname shutdown socketpair setuid setgid setgroups setresuid setresgid capget capset
		pidfd_open pidfd_send_signal landlock_create_ruleset`
	ordinaryOfAMD64 = `open stat lstat access poll select fork vfork pipe dup2 mkdir epoll_wait`
)

// machine evaluates a filter as the kernel does.
type machine struct {
	*filter
	vm *bpf.VM
}

// machines returns the filters of each architecture by its name, for a container with these capabilities.
func machines(t *testing.T, capabilities []string) map[string]machine {
	t.Helper()
	result := map[string]machine{}
	for _, calls := range []*arch.Info{arch.X86_64, arch.AARCH64} {
		f, err := runtimeDefault(calls, capabilities)
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]bpf.RawInstruction, len(f.program))
		for i, in := range f.program {
			raw[i] = bpf.RawInstruction{Op: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K}
		}
		program, decoded := bpf.Disassemble(raw)
		if !decoded {
			t.Fatalf("the filter for %s has an invalid instruction", calls.Name)
		}
		vm, err := bpf.NewVM(program)
		if err != nil {
			t.Fatal(err)
		}
		result[calls.Name] = machine{f, vm}
	}
	return result
}

// answer returns the filter's answer to a call with a number.
func (m machine) answer(t *testing.T, architecture arch.AuditArch, number uint32, arguments ...uint64) uint32 {
	t.Helper()
	// The fields of struct seccomp_data are in the machine's byte order, and both architectures put a number's lower half
	// first. The VM reads words in network byte order.
	var data [64]byte
	word := func(at int, value uint32) { binary.BigEndian.PutUint32(data[at:], value) }
	word(0, number)
	word(4, uint32(architecture))
	for i, argument := range arguments {
		word(16+8*i, uint32(argument))
		word(20+8*i, uint32(argument>>32))
	}
	result, err := m.vm.Run(data[:])
	if err != nil {
		t.Fatal(err)
	}
	return uint32(result)
}

// call returns the filter's answer to a call of its own architecture, which must have it.
func (m machine) call(t *testing.T, name string, arguments ...uint64) uint32 {
	t.Helper()
	number, known := m.number(name)
	if !known {
		t.Fatalf("%s has no system call %s", m.native.Name, name)
	}
	return m.answer(t, m.native.ID, number, arguments...)
}

// satisfying returns arguments that satisfy a rule.
func satisfying(rule specs.LinuxSyscall) []uint64 {
	arguments := make([]uint64, 6)
	for _, argument := range rule.Args {
		switch argument.Op {
		case specs.OpLessThan:
			arguments[argument.Index] = argument.Value - 1
		case specs.OpMaskedEqual:
			arguments[argument.Index] = argument.ValueTwo
		default:
			arguments[argument.Index] = argument.Value
		}
	}
	return arguments
}

// fits reports whether arguments satisfy a rule, as config-linux.md of the OCI's runtime-spec defines it.
func fits(rule specs.LinuxSyscall, arguments []uint64) bool {
	return !slices.ContainsFunc(rule.Args, func(a specs.LinuxSeccompArg) bool {
		switch got := arguments[a.Index]; a.Op {
		case specs.OpEqualTo:
			return got != a.Value
		case specs.OpLessThan:
			return got >= a.Value
		case specs.OpMaskedEqual:
			return got&a.Value != a.ValueTwo
		default:
			return true
		}
	})
}

func TestFilterContainsEveryCallOfTheProfile(t *testing.T) {
	for name, m := range machines(t, AllCapabilities()) {
		t.Run(name, func(t *testing.T) {
			for _, rule := range seccomp.DefaultProfile().Syscalls {
				others := rule.Includes != nil && len(rule.Includes.Arches) > 0 &&
					!slices.Contains(rule.Includes.Arches, runtime.GOARCH)
				for _, name := range rule.Names {
					_, known := m.number(name)
					if known == slices.Contains(missing[m.native], name) {
						t.Errorf("%s has a number: %t, which contradicts the list of missing calls", name, known)
					}
					if !known || others || rule.Action != specs.ActAllow {
						continue
					}
					if got := m.call(t, name, satisfying(rule.LinuxSyscall)...); got != unix.SECCOMP_RET_ALLOW {
						t.Errorf("%s: got %#x, want it allowed", name, got)
					}
				}
			}
		})
	}
}

func TestFilterMatchesProfile(t *testing.T) {
	// The interesting arguments are those of personality, socket and clone, also with a bit set in the upper half.
	values := []uint64{0, 1, 3, 8, 16, 17, 0x20000, 0x20008, 0x40000, 0x7fffffff, 0xffffffff}
	for bit := range 64 {
		values = append(values, 1<<bit, 1<<bit|2)
	}
	for family := range uint64(unix.AF_MAX + 2) {
		values = append(values, family)
	}
	for _, capabilities := range [][]string{nil, Unprivileged, {"SYS_ADMIN"}, AllCapabilities()} {
		profile, err := defaultProfile(capabilities)
		if err != nil {
			t.Fatal(err)
		}
		for name, m := range machines(t, capabilities) {
			t.Run(fmt.Sprintf("%s with %d capabilities", name, len(capabilities)), func(t *testing.T) {
				rules, last := map[uint32][]specs.LinuxSyscall{}, uint32(0)
				for _, rule := range profile.Syscalls {
					for _, name := range rule.Names {
						if number, known := m.number(name); known {
							rules[number] = append(rules[number], rule)
							last = max(last, number)
						}
					}
				}
				meant := func(number uint32, arguments []uint64) uint32 {
					if number > last {
						return unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
					}
					for _, rule := range rules[number] {
						switch {
						case !fits(rule, arguments):
						case rule.Action == specs.ActAllow:
							return unix.SECCOMP_RET_ALLOW
						default:
							return unix.SECCOMP_RET_ERRNO | uint32(*rule.ErrnoRet)
						}
					}
					return unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
				}
				conditional := func(rule specs.LinuxSyscall) bool { return len(rule.Args) > 0 }
				for number := range last + 10 {
					for _, value := range values {
						arguments := []uint64{value, ^value, ^value, ^value, ^value, ^value}
						got, want := m.answer(t, m.native.ID, number, arguments...), meant(number, arguments)
						if got != want {
							t.Errorf("call %d with %#x: got %#x, want %#x", number, value, got, want)
						}
						if !slices.ContainsFunc(rules[number], conditional) {
							break // its arguments do not matter
						}
					}
				}
			})
		}
	}
}

func TestFilterRejectsForeignArchitectures(t *testing.T) {
	const (
		x32    = 0x40000000 // marks a call of x32, which shares amd64's architecture
		absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	)
	for name, m := range machines(t, AllCapabilities()) {
		t.Run(name, func(t *testing.T) {
			for number := range uint32(1024) {
				for _, foreign := range []*arch.Info{arch.I386, arch.ARM, arch.X86_64, arch.AARCH64} {
					if foreign.ID == m.native.ID {
						continue
					}
					if got := m.answer(t, foreign.ID, number); got != unix.SECCOMP_RET_KILL_PROCESS {
						t.Errorf("call %d of %s: got %#x, want the program killed", number, foreign.Name, got)
					}
				}
				if got := m.answer(t, m.native.ID, number|x32); got != absent {
					t.Errorf("call %d of x32: got %#x, want ENOSYS", number, got)
				}
			}
		})
	}
}

func TestFilterForbidsAdministrativeCalls(t *testing.T) {
	const refused = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	for name, m := range machines(t, Unprivileged) {
		t.Run(name, func(t *testing.T) {
			for name := range strings.FieldsSeq(administration) {
				if got := m.call(t, name, unix.CLONE_NEWUSER); got != refused {
					t.Errorf("%s: got %#x, want EPERM", name, got)
				}
			}
			for name, namespace := range map[string]uint64{
				"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID,
				"net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS,
				"cgroup": unix.CLONE_NEWCGROUP,
			} {
				for _, other := range []uint64{0, uint64(unix.SIGCHLD), unix.CLONE_VM | unix.CLONE_VFORK, 1 << 40} {
					if got := m.call(t, "clone", namespace|other); got != refused {
						t.Errorf("clone into a new %s namespace with %#x: got %#x, want EPERM", name, other, got)
					}
				}
			}
			if got, want := m.call(t, "clone3"), unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS); got != want {
				t.Errorf("clone3: got %#x, want ENOSYS", got)
			}
			for _, family := range []uint64{unix.AF_ALG, unix.AF_VSOCK, unix.AF_INET | 1<<32} {
				if got := m.call(t, "socket", family); got != refused {
					t.Errorf("socket of the family %#x: got %#x, want EPERM", family, got)
				}
			}
		})
	}
}

func TestFilterAllowsOrdinaryCalls(t *testing.T) {
	const (
		goThread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM |
			unix.CLONE_THREAD
		cThread = goThread | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID
		goStart = unix.CLONE_VFORK | unix.CLONE_VM | unix.CLONE_PIDFD | uint64(unix.SIGCHLD)
	)
	allows := func(t *testing.T, m machine, name string, arguments ...uint64) {
		t.Helper()
		if got := m.call(t, name, arguments...); got != unix.SECCOMP_RET_ALLOW {
			t.Errorf("%s with %#x: got %#x, want it allowed", name, arguments, got)
		}
	}
	for name, m := range machines(t, Unprivileged) {
		t.Run(name, func(t *testing.T) {
			for name := range strings.FieldsSeq(ordinary) {
				allows(t, m, name)
			}
			for _, flags := range []uint64{goThread, cThread, goStart, uint64(unix.SIGCHLD)} {
				allows(t, m, "clone", flags)
			}
			for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
				allows(t, m, "socket", family)
			}
			// The values are Linux, Linux with 32 bits, and a query (personality(2)).
			for _, personality := range []uint64{0, 8, 0xffffffff} {
				allows(t, m, "personality", personality)
			}
			const statOfARM64 = 79 // asm-generic/unistd.h
			if m.native == arch.AARCH64 && m.answer(t, m.native.ID, statOfARM64) != unix.SECCOMP_RET_ALLOW {
				t.Error("stat was refused, want it allowed")
			}
			if m.native == arch.X86_64 {
				for name := range strings.FieldsSeq(ordinaryOfAMD64) {
					allows(t, m, name)
				}
			}
		})
	}
}
