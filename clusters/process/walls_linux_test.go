// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
)

// A prisoner tries what its first argument names, with what the others name, and ends with an error if it can't.
func init() {
	roles["prisoner"] = func() error { return attempts[os.Args[1]](os.Args[2:]...) }
}

// attempts are what a walled program may try.
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
	"set": func(args ...string) error { // what it is already
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
		return unix.Sendto(socket, []byte("hello"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
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
			if name, value, _ := strings.Cut(line, ":\t"); strings.HasPrefix(name, "Cap") && name != "CapBnd" && strings.Trim(value, "0\n") != "" {
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

// socket makes a socket.
func socket(domain, kind, protocol int) func(...string) error {
	return func(...string) error {
		_, err := unix.Socket(domain, kind, protocol)
		return err
	}
}

// dial connects to the address that is named.
func dial(network string) func(...string) error {
	return func(args ...string) error {
		connection, err := net.Dial(network, args[0])
		if err != nil {
			return err
		}
		return connection.Close()
	}
}

// cell is a place with what a prisoner may have, and what it may not.
type cell struct {
	scope                               *Scope
	walls                               *Walls
	home, given, secret, folder, socket string
	datagrams                           string // a Unix socket
	memory                              int    // shared
	open, closed                        net.Listener
}

func newCell(t *testing.T, scope *Scope) *cell {
	t.Helper()
	outside := t.TempDir()
	c := &cell{
		scope: scope, home: filepath.Join(scope.Dir, "home"),
		given: filepath.Join(outside, "given", "file"), secret: filepath.Join(outside, "secret", "file"),
		folder: filepath.Join(outside, "secret"), socket: filepath.Join(outside, "secret", "socket"),
	}
	must(t, os.Mkdir(c.home, 0o700))
	for _, file := range []string{c.given, c.secret} {
		must(t, os.Mkdir(filepath.Dir(file), 0o700))
		must(t, os.WriteFile(file, []byte("content"), 0o600))
	}
	unixSocket, err := net.Listen("unix", c.socket)
	must(t, err)
	c.datagrams = filepath.Join(c.folder, "datagrams")
	datagrams, err := net.ListenPacket("unixgram", c.datagrams)
	must(t, err)
	c.memory, err = unix.SysvShmGet(unix.IPC_PRIVATE, 1, 0o600)
	must(t, err)
	t.Cleanup(func() {
		_, err := unix.SysvShmCtl(c.memory, unix.IPC_RMID, nil)
		must(t, errors.Join(err, datagrams.Close()))
	})
	for _, listener := range []*net.Listener{&c.open, &c.closed} {
		*listener, err = net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { _ = (*listener).Close() })
	}
	t.Cleanup(func() { _ = unixSocket.Close() })
	calls, err := container.DefaultFilter()
	must(t, err)
	c.walls = &Walls{Read: []string{c.given}, Connect: []int{port(c.open)}, Calls: calls}
	return c
}

func port(listener net.Listener) int {
	address, _ := listener.Addr().(*net.TCPAddr)
	return address.Port
}

// try has a prisoner try something, and returns how that ended and what it said.
func (c *cell) try(t *testing.T, walls *Walls, what string, args ...string) (said string, err error) {
	t.Helper()
	var output strings.Builder
	p, err := c.scope.Start(Spec{
		Path: os.Args[0], Args: append([]string{what}, args...), Dir: c.home, Stdout: &output, Stderr: &output, Contained: true, Walls: walls,
		Env: []string{roleVariable + "=prisoner", "PATH=" + os.Getenv("PATH"), "HOME=" + c.home},
	})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = p.Wait(ctx)
	return output.String(), err
}

// attempt is something that a wall holds. Without a name, it is not one of the walls alone that does.
type attempt struct {
	wall Wall
	what []string
}

// forbidden are attempts that must fail.
func (c *cell) forbidden() []attempt {
	self, unixPort := strconv.Itoa(os.Getpid()), strconv.Itoa(port(c.closed))
	return []attempt{
		{FilesWall, []string{"read", c.secret}},
		{FilesWall, []string{"list", c.folder}},
		{FilesWall, []string{"write", c.secret}},
		{FilesWall, []string{"append", c.secret}},
		{FilesWall, []string{"truncate", c.secret}},
		{FilesWall, []string{"create", c.folder}},
		{FilesWall, []string{"remove", c.secret}},
		{FilesWall, []string{"rename", c.secret}},
		{FilesWall, []string{"link", c.secret, filepath.Join(c.home, "link")}},
		{FilesWall, []string{"append", c.given}},
		{FilesWall, []string{"truncate", c.given}},
		{FilesWall, []string{"remove", c.given}},
		{FilesWall, []string{"create", "/usr"}},
		{FilesWall, []string{"create", "/"}},
		{FilesWall, []string{"read", "/etc/shadow"}},
		{FilesWall, []string{"list", "/etc/ssl/private"}},
		{FilesWall, []string{"list", "/etc/pki/tls/private"}},
		{FilesWall, []string{"list", c.scope.Dir}},
		{FilesWall, []string{"mount", c.home}},
		{FilesWall, []string{"remount"}},
		{FilesWall, []string{"unmount"}},
		{FilesWall, []string{"read", "/proc/" + self + "/environ"}},
		{FilesWall, []string{"list", "/proc/1/root" + c.folder}},
		{FilesWall, []string{"set", "/proc/sys/kernel/core_pattern"}},
		{FilesWall, []string{"append", "/proc/1/oom_score_adj"}},
		{FilesWall, []string{"trace", "1"}},
		{FilesWall, []string{"trace", self}},
		{FilesWall, []string{"signal", self}},
		{PrivateRoot, []string{"see", c.secret}},
		{PrivateRoot, []string{"chmod", c.secret}},
		{PrivateRoot, []string{"keep mode", "/dev/null"}},
		{PrivateRoot, []string{"see", c.scope.Dir + "/root"}},
		{PrivateRoot, []string{"see", "/proc/" + self}},
		{PrivateRoot, []string{"attach shared memory", strconv.Itoa(c.memory)}},
		{NetworkWall, []string{"connect", c.closed.Addr().String()}},
		{NetworkWall, []string{"connect to a socket", c.socket}},
		{NetworkWall, []string{"send by a pair", c.datagrams}},
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

func TestWalls(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		c := newCell(t, scope)
		_, err := c.try(t, c.walls, "nothing")
		must(t, err)
		built := scope.Walls()
		t.Logf("walls: %q", built)
		has := func(wall Wall) bool { return slices.Contains(built, wall) }
		if !scope.options.withoutNamespaces && !has(PrivateRoot) {
			t.Error("in a namespace there is no private root")
		}
		if os.Getenv(namespacesVariable) == "required" && (!has(FilesWall) || !has(NetworkWall)) {
			t.Errorf("%s=required, and this machine has only these walls: %q", namespacesVariable, built)
		}

		own := filepath.Join(c.home, "own")
		must(t, os.WriteFile(own, nil, 0o600))
		for _, allowed := range [][]string{
			{"read", c.given},
			{"read", "/etc/passwd"},
			{"read", "/proc/self/status"},
			{"write", "/dev/null"},
			{"append", "/proc/self/fd/1"},
			{"write", own},
			{"chmod", own},
			{"rename", own},
			{"create", c.home},
			{"list", c.home},
			{"list", "/usr"},
			{"execute", "/bin/sh", "-c", "exit 0"},
			{"connect", c.open.Addr().String()},
			{"listen"},
			{"pair"},
			{"addresses"},
		} {
			if said, err := c.try(t, c.walls, allowed[0], allowed[1:]...); err != nil {
				t.Errorf("it can't %s: %v %s", strings.Join(allowed, " "), err, said)
			}
		}

		for _, forbidden := range c.forbidden() {
			if forbidden.wall != "" && !has(forbidden.wall) {
				continue
			}
			if said, err := c.try(t, c.walls, forbidden.what[0], forbidden.what[1:]...); err == nil {
				t.Errorf("it can %s %s", strings.Join(forbidden.what, " "), said)
			}
		}
		if content, err := os.ReadFile(c.secret); err != nil || string(content) != "content" {
			t.Errorf("the secret is %q (%v)", content, err)
		}
		if content, err := os.ReadFile(c.given); err != nil || string(content) != "content" {
			t.Errorf("what it may read is %q (%v)", content, err)
		}
	})
}

// Each wall is needed: without it, an access succeeds that it should prevent. The private root also hides files that
// may not be read, so the test of the wall for files works without it.
func TestEachWallIsNeeded(t *testing.T) {
	t.Parallel()
	for _, wall := range allWalls {
		t.Run(string(wall), func(t *testing.T) {
			t.Parallel()
			scope := newScope(t, Options{withoutNamespaces: wall != PrivateRoot})
			c := newCell(t, scope)
			_, err := c.try(t, c.walls, "nothing")
			must(t, err)
			if !slices.Contains(scope.Walls(), wall) {
				t.Skip("this machine can't build it")
			}
			c.walls.without = []Wall{wall}
			var succeeded []string
			for _, forbidden := range c.forbidden() {
				ofMachine := len(forbidden.what) > 1 && (forbidden.what[1] == "/usr" || forbidden.what[1] == "/")
				if forbidden.wall == wall && !ofMachine {
					if _, err := c.try(t, c.walls, forbidden.what[0], forbidden.what[1:]...); err == nil {
						succeeded = append(succeeded, strings.Join(forbidden.what, " "))
					}
				}
			}
			if len(succeeded) == 0 {
				t.Error("nothing that it holds succeeds without it")
			}
			t.Logf("without it: %s", strings.Join(succeeded, "; "))
			if slices.Contains(scope.Walls(), wall) {
				t.Error("the scope claims a wall that was left out")
			}
		})
	}
}

// A shell or make may have left us descriptors that are not closed when a program starts.
func TestNoInheritedDescriptor(t *testing.T) { // alone: whatever is started meanwhile would inherit it, too
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		c := newCell(t, scope)
		file, err := os.Open(c.secret)
		must(t, err)
		defer file.Close()
		inherited, err := unix.Dup(int(file.Fd()))
		must(t, err)
		defer unix.Close(inherited)
		for _, walls := range []*Walls{c.walls, nil} {
			if said, err := c.try(t, walls, "read a descriptor", strconv.Itoa(inherited)); err == nil {
				t.Errorf("it can read descriptor %d (walled: %t) %s", inherited, walls != nil, said)
			}
		}
	})
}

// A program is not started without a wall that it requires, even if the machine had that wall when it was tested.
func TestARequiredWall(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		c := newCell(t, scope)
		_, err := c.try(t, c.walls, "nothing")
		must(t, err)
		c.walls.Require = scope.Walls()
		_, err = c.try(t, c.walls, "nothing")
		must(t, err)
		for _, wall := range c.walls.Require {
			walls := *c.walls
			walls.without = []Wall{wall}
			_, err := scope.Start(Spec{
				Path: "/bin/sh", Args: []string{"-c", "echo >" + c.home + "/begun"}, Dir: c.home,
				Contained: true, Walls: &walls,
			})
			if err == nil || !strings.Contains(err.Error(), strconv.Quote(string(wall))) {
				t.Errorf("without the wall %q: %v", wall, err)
			}
		}
		if exists(filepath.Join(c.home, "begun")) {
			t.Error("it was started")
		}
	})
}

// A file that cannot be named is treated like one that does not exist: the walls are built without it.
func TestFilesWithoutNames(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		c := newCell(t, scope)
		_, err := c.try(t, c.walls, "nothing")
		must(t, err)
		want := scope.Walls()
		loop := filepath.Join(t.TempDir(), "loop")
		must(t, os.Symlink(loop, loop))
		c.walls.Read = append(c.walls.Read, filepath.Join(c.given, "below a file"), loop, filepath.Join(loop, "below"))
		for _, what := range []string{"nothing", "read"} {
			_, err := c.try(t, c.walls, what, c.given)
			must(t, err)
		}
		if got := scope.Walls(); !slices.Equal(got, want) {
			t.Errorf("the walls are %q, want %q", got, want)
		}
	})
}

// Without walls each of these accesses succeeds. So the tests of the walls can fail.
func TestWhatWallsHoldSucceedsWithoutThem(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		c := newCell(t, scope)
		for _, what := range [][]string{
			{"read", c.secret},
			{"list", c.folder},
			{"create", c.folder},
			{"see", c.secret},
			{"chmod", c.secret},
			{"connect", c.closed.Addr().String()},
			{"connect to a socket", c.socket},
			{"datagram"},
			{"append", c.given},
			{"list", scope.Dir},
			{"write", c.secret},
			{"remove", c.secret},
		} {
			if said, err := c.try(t, nil, what[0], what[1:]...); err != nil {
				t.Errorf("it can't %s: %v %s", strings.Join(what, " "), err, said)
			}
		}
		if built := scope.Walls(); built != nil {
			t.Errorf("the scope claims walls: %q", built)
		}
	})
}

// The owner may be killed at any moment, and a walled program must not outlive it.
func TestAWalledProgramStopsAndWrites(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		c := newCell(t, scope)
		read, write := io.Pipe()
		p, err := scope.Start(Spec{
			Path: "/bin/sh", Args: []string{"-c", "trap 'echo bye > last; exit 3' TERM; echo ready; while :; do sleep 0.1; done"}, Dir: c.home,
			Stdout: write, Contained: true, Walls: c.walls,
		})
		must(t, err)
		if _, err := fmt.Fscanln(read, new(string)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, read) }()
		p.Stop(time.Minute)
		if exit, ok := errors.AsType[ExitError](p.Err()); !ok || exit.ExitCode() != 3 {
			t.Errorf("it ended with %v", p.Err())
		}
		if last, err := os.ReadFile(filepath.Join(c.home, "last")); err != nil || string(last) != "bye\n" {
			t.Errorf("its last word is %q (%v)", last, err)
		}
	})
}

// Tests of a submission start an API server and connect to it, and to nothing else.
func TestANetworkOfItsOwn(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	c := newCell(t, newScope(t, Options{}))
	walls := &Walls{OwnNetwork: true}
	for _, allowed := range []string{"serve itself", "datagram", "listen"} {
		if said, err := c.try(t, walls, allowed); err != nil {
			t.Errorf("it can't %s: %v %s", allowed, err, said)
		}
	}
	for _, forbidden := range [][]string{
		{"connect", c.open.Addr().String()},
		{"connect to a socket", c.socket},
		{"connect", "192.0.2.1:80"},
		{"read", c.secret},
		{"capabilities"},
	} {
		if said, err := c.try(t, walls, forbidden[0], forbidden[1:]...); err == nil {
			t.Errorf("it can %s %s", strings.Join(forbidden, " "), said)
		}
	}
	if built := c.scope.Walls(); !slices.Contains(built, NetworkWall) || !slices.Contains(built, PrivateRoot) {
		t.Errorf("its walls are %q", built)
	}
}
