// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package namespace_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
	"lva.io/operators/clusters/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Inside(m) }

func TestFirstProcessIsRootInItsOwnNetwork(t *testing.T) {
	if os.Getpid() != 1 || os.Getuid() != 0 || os.Getgid() != 0 {
		t.Errorf("got process %d of user %d and group %d, want 1, 0 and 0", os.Getpid(), os.Getuid(), os.Getgid())
	}
	interfaces, err := net.Interfaces()
	if err != nil || len(interfaces) != 1 || interfaces[0].Name != "lo" {
		t.Errorf("interfaces = %v, %v; want only lo", interfaces, err)
	}
	// Root inside must not be root on the machine, who may write this file in any namespace.
	if err := os.WriteFile("/proc/sys/kernel/core_pattern", []byte("x"), 0); err == nil {
		t.Error("writing a setting of the whole machine returned no error")
	}
}

// crossing returns a crossing whose other side is in the same network, which makes no difference to it.
func crossing(t *testing.T, others namespace.Answers) *namespace.Crossing {
	t.Helper()
	asks, serves, err := namespace.CrossingPair()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- namespace.ServeCrossing(serves, (&net.Dialer{}).DialContext, others) }()
	c, err := namespace.NewCrossing(asks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestCrossingPassesSockets(t *testing.T) {
	c := crossing(t, nil)
	listener, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			_, _ = io.WriteString(connection, "hello")
			connection.Close()
		}
	}()
	connection, err := c.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if content, err := io.ReadAll(connection); err != nil || string(content) != "hello" {
		t.Errorf("read %q, %v from the connection; want hello", content, err)
	}
	packets, err := c.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	if _, err := packets.WriteTo([]byte("x"), packets.LocalAddr()); err != nil {
		t.Error(err)
	}
	if n, _, err := packets.ReadFrom(make([]byte, 10)); n != 1 || err != nil {
		t.Errorf("ReadFrom() = %d, %v; want 1 byte", n, err)
	}
}

func TestCrossingPreservesErrors(t *testing.T) {
	c := crossing(t, nil)
	listener, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := listener.Addr().String()
	if _, err := c.Listen(t.Context(), "tcp", taken); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Listen() error for a port in use = %v, want EADDRINUSE", err)
	}
	listener.Close()
	const closedPort = "127.0.0.1:1" // not the port that was closed, because the other side may still hold it
	if _, err := c.DialContext(t.Context(), "tcp", closedPort); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("DialContext() error for a port without a listener = %v, want ECONNREFUSED", err)
	}
	if _, err := c.DialContext(t.Context(), "carrier pigeon", taken); err == nil ||
		!strings.Contains(err.Error(), "pigeon") {
		t.Errorf("DialContext() error for an unknown network = %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.DialContext(ended, "tcp", taken); !errors.Is(err, context.Canceled) {
		t.Errorf("DialContext() error after the context ended = %v, want context.Canceled", err)
	}
}

func TestCrossingOpensFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := crossing(t, namespace.Answers{"read": func(argument string) (*os.File, error) { return os.Open(argument) }})
	file, err := c.Open(t.Context(), "read", path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if content, err := io.ReadAll(file); err != nil || string(content) != "content" {
		t.Errorf("read %q, %v from the file; want content", content, err)
	}
	if _, err := c.Open(t.Context(), "read", path+".not"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open() error for a missing file = %v, want os.ErrNotExist", err)
	}
	if _, err := c.Open(t.Context(), "write", path); err == nil {
		t.Error("Open() with an unknown key returned no error")
	}
}

func TestSetOutlivesProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	set, err := namespace.NewSet(dir, "its-name")
	if err != nil {
		t.Fatal(err)
	}
	reopened := &namespace.Set{Dir: dir} // as after a restart of the agent
	var name string
	if err := reopened.Do(func() (err error) {
		name, err = os.Hostname()
		return err
	}, "uts"); err != nil || name != "its-name" {
		t.Errorf("host name in the set = %q, %v; want its-name", name, err)
	}
	if hostName, _ := os.Hostname(); hostName == "its-name" {
		t.Error("the host name outside of the set has changed")
	}
	if err := set.Close(); err != nil {
		t.Error(err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("after Close, mounts of the set remain: %v", err)
	}
	if err := set.Close(); err != nil {
		t.Errorf("second Close() error = %v", err)
	}
}

func TestDetachedTreeDoesNotPropagateMounts(t *testing.T) {
	machine, node := t.TempDir(), t.TempDir()
	mount := func(kind, target string, flags uintptr) {
		t.Helper()
		if err := unix.Mount(kind, target, kind, flags, ""); err != nil {
			t.Fatal(err)
		}
		if kind != "" {
			t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
		}
	}
	mount("tmpfs", machine, 0)
	mount("", machine, unix.MS_SHARED) // like all mounts on a machine with systemd
	if err := os.Mkdir(filepath.Join(machine, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := namespace.Detach(machine)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, node, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(node, unix.MNT_DETACH) })
	mount("tmpfs", filepath.Join(node, "below"), 0)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || !strings.Contains(string(mounts), node+"/below ") ||
		strings.Contains(string(mounts), machine+"/below ") {
		t.Errorf("mounts = %s, %v; want the new mount on the node only", mounts, err)
	}
}
