// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
)

// The role "attempt" does what its first argument names, with the others as arguments, and ends with an error if it
// can't.
func init() {
	roles["attempt"] = func() error { return attempts[os.Args[1]](os.Args[2:]...) }
}

// attempts are what a walled program may attempt.
var attempts = map[string]func(args ...string) error{
	"nothing": func(...string) error { return nil },
	"read": func(args ...string) error {
		_, err := os.ReadFile(args[0])
		return err
	},
	"list": func(args ...string) error {
		_, err := os.ReadDir(args[0])
		return err
	},
	"see": func(args ...string) error {
		_, err := os.Lstat(args[0])
		return err
	},
	"write": func(args ...string) error { return os.WriteFile(args[0], []byte("changed"), 0o600) },
	"append": func(args ...string) error {
		file, err := os.OpenFile(args[0], os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		return file.Close()
	},
	"read a descriptor": func(args ...string) error {
		descriptor, _ := strconv.Atoi(args[0])
		_, err := unix.Pread(descriptor, make([]byte, 1), 0)
		return err
	},
	"set": func(args ...string) error { // to its current value
		value, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		return os.WriteFile(args[0], value, 0)
	},
	"truncate":            func(args ...string) error { return os.Truncate(args[0], 0) },
	"create":              func(args ...string) error { return os.WriteFile(filepath.Join(args[0], "new"), nil, 0o600) },
	"remove":              func(args ...string) error { return os.Remove(args[0]) },
	"rename":              func(args ...string) error { return os.Rename(args[0], args[0]+".renamed") },
	"link":                func(args ...string) error { return os.Link(args[0], args[1]) },
	"chmod":               func(args ...string) error { return os.Chmod(args[0], 0o777) },
	"execute":             func(args ...string) error { return exec.Command(args[0], args[1:]...).Run() },
	"connect":             dial("tcp"),
	"connect to a socket": dial("unix"),
	"fast open": func(args ...string) error {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		port, _ := strconv.Atoi(args[0])
		return unix.Sendto(socket, []byte("hello"), unix.MSG_FASTOPEN,
			&unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	},
	"send by a pair": func(args ...string) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(pair[0], []byte("hello"), 0, &unix.SockaddrUnix{Name: args[0]})
	},
	"pair": func(...string) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	},
	"attach shared memory": func(args ...string) error {
		id, _ := strconv.Atoi(args[0])
		_, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
		return err
	},
	"multipath": socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP),
	"datagram":  socket(unix.AF_INET, unix.SOCK_DGRAM, 0),
	"raw":       socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
	"packet":    socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
	"vsock":     socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
	"io_uring": func(...string) error {
		var parameters [120]byte
		_, _, failed := syscall.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters)), 0)
		if failed != 0 {
			return failed
		}
		return nil
	},
	"listen": func(...string) error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return listener.Close()
	},
	"serve itself": func(...string) error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		connection, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		return errors.Join(connection.Close(), listener.Close())
	},
	"addresses": func(...string) error {
		_, err := net.InterfaceAddrs()
		return err
	},
	"user namespace": func(...string) error {
		return (&exec.Cmd{Path: "/bin/true", SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}}).Run()
	},
	"unshare": func(...string) error { return unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNS) },
	"mount":   func(args ...string) error { return unix.Mount("tmpfs", args[0], "tmpfs", 0, "") },
	"remount": func(...string) error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"unmount": func(...string) error { return unix.Unmount("/usr", unix.MNT_DETACH) },
	"trace": func(args ...string) error {
		number, _ := strconv.Atoi(args[0])
		return unix.PtraceSeize(number)
	},
	"signal": func(args ...string) error {
		number, _ := strconv.Atoi(args[0])
		return unix.Kill(number, 0)
	},
	"keys": func(...string) error {
		_, err := unix.AddKey("user", "k", []byte("v"), unix.KEY_SPEC_SESSION_KEYRING)
		return err
	},
	"load program": func(...string) error { _, _, failed := syscall.Syscall(unix.SYS_BPF, 0, 0, 0); return failed },
	"capabilities": func(...string) error {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(status)) {
			if name, value, _ := strings.Cut(line, ":\t"); strings.HasPrefix(name, "Cap") &&
				name != "CapBnd" && strings.Trim(value, "0\n") != "" {
				return nil
			}
		}
		return errors.New("it has none")
	},
	"setuid program": func(...string) error {
		status, err := os.ReadFile("/proc/self/status")
		if err == nil && strings.Contains(string(status), "NoNewPrivs:\t1") {
			return errors.New("it gets no privileges")
		}
		return err
	},
}

// socket creates a socket.
func socket(domain, kind, protocol int) func(...string) error {
	return func(...string) error {
		_, err := unix.Socket(domain, kind, protocol)
		return err
	}
}

// dial connects to the given address.
func dial(network string) func(...string) error {
	return func(args ...string) error {
		connection, err := net.Dial(network, args[0])
		if err != nil {
			return err
		}
		return connection.Close()
	}
}

// fixture is a folder with the files and sockets that a contained program may use, and those that it may not.
type fixture struct {
	scope                               *Scope
	walls                               *Walls
	home, given, secret, folder, socket string
	datagrams                           string // a Unix socket
	memory                              int    // shared
	open, closed                        net.Listener
}

func newFixture(t *testing.T, scope *Scope) *fixture {
	t.Helper()
	outside := t.TempDir()
	f := &fixture{
		scope: scope, home: filepath.Join(scope.Dir, "home"),
		given: filepath.Join(outside, "given", "file"), secret: filepath.Join(outside, "secret", "file"),
		folder: filepath.Join(outside, "secret"), socket: filepath.Join(outside, "secret", "socket"),
	}
	must(t, os.Mkdir(f.home, 0o700))
	for _, file := range []string{f.given, f.secret} {
		must(t, os.Mkdir(filepath.Dir(file), 0o700))
		must(t, os.WriteFile(file, []byte("content"), 0o600))
	}
	unixSocket, err := net.Listen("unix", f.socket)
	must(t, err)
	f.datagrams = filepath.Join(f.folder, "datagrams")
	datagrams, err := net.ListenPacket("unixgram", f.datagrams)
	must(t, err)
	f.memory, err = unix.SysvShmGet(unix.IPC_PRIVATE, 1, 0o600)
	must(t, err)
	t.Cleanup(func() {
		_, err := unix.SysvShmCtl(f.memory, unix.IPC_RMID, nil)
		must(t, errors.Join(err, datagrams.Close()))
	})
	for _, listener := range []*net.Listener{&f.open, &f.closed} {
		*listener, err = net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { _ = (*listener).Close() })
	}
	t.Cleanup(func() { _ = unixSocket.Close() })
	calls, err := container.DefaultFilter()
	must(t, err)
	f.walls = &Walls{Read: []string{f.given}, Connect: []int{port(f.open)}, Calls: calls}
	return f
}

func port(listener net.Listener) int {
	address, _ := listener.Addr().(*net.TCPAddr)
	return address.Port
}

// try makes a contained program try something, and returns how that ended and what it printed.
func (f *fixture) try(t *testing.T, walls *Walls, what string, args ...string) (got string, err error) {
	t.Helper()
	var output strings.Builder
	p, err := f.scope.Start(Spec{
		Path: os.Args[0], Args: append([]string{what}, args...),
		Dir: f.home, Stdout: &output, Stderr: &output, Contained: true, Walls: walls,
		Env: []string{roleVariable + "=attempt", "PATH=" + os.Getenv("PATH"), "HOME=" + f.home},
	})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = p.Wait(ctx)
	return output.String(), err
}

// attempt is something that a wall prevents. If wall is empty, no single wall prevents it alone.
type attempt struct {
	wall Wall
	what []string
}

// forbidden are attempts that must fail.
func (f *fixture) forbidden() []attempt {
	self, unixPort := strconv.Itoa(os.Getpid()), strconv.Itoa(port(f.closed))
	return []attempt{
		{FilesWall, []string{"read", f.secret}},
		{FilesWall, []string{"list", f.folder}},
		{FilesWall, []string{"write", f.secret}},
		{FilesWall, []string{"append", f.secret}},
		{FilesWall, []string{"truncate", f.secret}},
		{FilesWall, []string{"create", f.folder}},
		{FilesWall, []string{"remove", f.secret}},
		{FilesWall, []string{"rename", f.secret}},
		{FilesWall, []string{"link", f.secret, filepath.Join(f.home, "link")}},
		{FilesWall, []string{"append", f.given}},
		{FilesWall, []string{"truncate", f.given}},
		{FilesWall, []string{"remove", f.given}},
		{FilesWall, []string{"create", "/usr"}},
		{FilesWall, []string{"create", "/"}},
		{FilesWall, []string{"read", "/etc/shadow"}},
		{FilesWall, []string{"list", "/etc/ssl/private"}},
		{FilesWall, []string{"list", "/etc/pki/tls/private"}},
		{FilesWall, []string{"list", f.scope.Dir}},
		{FilesWall, []string{"mount", f.home}},
		{FilesWall, []string{"remount"}},
		{FilesWall, []string{"unmount"}},
		{FilesWall, []string{"read", "/proc/" + self + "/environ"}},
		{FilesWall, []string{"list", "/proc/1/root" + f.folder}},
		{FilesWall, []string{"set", "/proc/sys/kernel/core_pattern"}},
		{FilesWall, []string{"append", "/proc/1/oom_score_adj"}},
		{FilesWall, []string{"trace", "1"}},
		{FilesWall, []string{"trace", self}},
		{FilesWall, []string{"signal", self}},
		{PrivateRoot, []string{"see", f.secret}},
		{PrivateRoot, []string{"chmod", f.secret}},
		{PrivateRoot, []string{"keep mode", "/dev/null"}},
		{PrivateRoot, []string{"see", f.scope.Dir + "/root"}},
		{PrivateRoot, []string{"see", "/proc/" + self}},
		{PrivateRoot, []string{"attach shared memory", strconv.Itoa(f.memory)}},
		{NetworkWall, []string{"connect", f.closed.Addr().String()}},
		{NetworkWall, []string{"connect to a socket", f.socket}},
		{NetworkWall, []string{"send by a pair", f.datagrams}},
		{NetworkWall, []string{"fast open", unixPort}},
		{NetworkWall, []string{"multipath"}},
		{NetworkWall, []string{"datagram"}},
		{NetworkWall, []string{"raw"}},
		{NetworkWall, []string{"packet"}},
		{NetworkWall, []string{"vsock"}},
		{NetworkWall, []string{"io_uring"}},
		{CallsWall, []string{"keys"}},
		{CallsWall, []string{"user namespace"}},
		{CallsWall, []string{"load program"}},
		{"", []string{"capabilities"}},
		{"", []string{"setuid program"}},
	}
}
