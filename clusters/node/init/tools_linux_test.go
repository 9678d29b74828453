// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node"
	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/namespace"
	"lva.io/operators/clusters/node/plan"
)

// program builds this program. The test binary can't replace it, because what the program does depends on its name, and
// it must need no other file.
var program = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return "", err
	}
	programs := node.ProgramsOf(root)
	return programs.Init, programs.Ensure(context.Background())
})

// The command lines are those of k8s.io/mount-utils.
func TestParseMountAcceptsKubeletCommandLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]mountCall{
		"-t tmpfs -o size=64m,noswap tmpfs /v": {
			source: "tmpfs", target: "/v", kind: "tmpfs", data: "size=64m,noswap",
		},
		"-t tmpfs tmpfs /v": {
			source: "tmpfs", target: "/v", kind: "tmpfs",
		},
		"-o bind /a /b": {
			source: "/a", target: "/b", flags: unix.MS_BIND,
		},
		"--no-canonicalize -o bind /proc/1/fd/9 /b": {
			source: "/proc/1/fd/9", target: "/b", flags: unix.MS_BIND,
		},
		"-o bind,remount,ro /a /b": {
			source: "/a", target: "/b", flags: unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY,
		},
		"-o ro,rw,relatime /a /b": {
			source: "/a", target: "/b", flags: unix.MS_RELATIME,
		},
		"--make-rshared /a": {
			target: "/a", flags: unix.MS_SHARED | unix.MS_REC,
		},
		"-t ext4 -o defaults,noexec,data=x /dev/a /b": {
			source: "/dev/a", target: "/b", kind: "ext4", flags: unix.MS_NOEXEC, data: "data=x",
		},
	} {
		got, err := parseMount(strings.Fields(line))
		if err != nil || got != want {
			t.Errorf("parseMount(%q) = %+v, %v; want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "a b c", "--fstab x /v", "-x /v"} {
		if got, err := parseMount(strings.Fields(line)); err == nil {
			t.Errorf("parseMount(%q) = %+v, want an error", line, got)
		}
	}
}

func TestConnectTarget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"CONNECT 10.96.0.1:443 HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\n\r\nmore": "10.96.0.1:443",
		"GET / HTTP/1.1\r\n\r\n":             "",
		"CONNECT 10.96.0.1:443 HTTP/1.1\r\n": "",
		"":                                   "",
	} {
		got, err := connectTarget(bufio.NewReader(strings.NewReader(text)))
		if got != want || (err == nil) != (want != "") {
			t.Errorf("connectTarget(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestDialLocal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			address, _ := connectTarget(bufio.NewReader(connection))
			answer := "HTTP/1.1 502 no local process serves it\r\n\r\n"
			if address == "10.96.0.1:443" {
				answer = "HTTP/1.1 200 connected\r\n\r\nhello"
			}
			_, _ = connection.Write([]byte(answer))
			connection.Close()
		}
	}()
	known := dialLocal(t.Context(), path, "10.96.0.1:443")
	if known == nil {
		t.Fatal("dialLocal() found no server")
	}
	reply := make([]byte, len("hello"))
	if _, err := known.Read(reply); err != nil || string(reply) != "hello" {
		t.Errorf("got reply %q, %v; want %q", reply, err, "hello")
	}
	known.Close()
	if dialLocal(t.Context(), path, "10.96.0.2:443") != nil ||
		dialLocal(t.Context(), path+".not", "10.96.0.1:443") != nil ||
		dialLocal(t.Context(), "", "x:1") != nil {
		t.Error("dialLocal() found a server for an address that no local process serves")
	}
}

func TestForwardSurvivesAcceptError(t *testing.T) {
	t.Parallel()
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := listener.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	failed := make(chan struct{})
	go forward(&announcing{TCPListener: listener, failed: failed}, func() (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = io.WriteString(theirs, "hello")
			theirs.Close()
		}()
		return ours, nil
	})
	<-failed
	if err := listener.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(5 * time.Second))
	if reply, err := io.ReadAll(client); err != nil || string(reply) != "hello" {
		t.Errorf("after the error, got reply %q, %v; want %q", reply, err, "hello")
	}
}

// announcing closes a channel when it has failed to accept a connection.
type announcing struct {
	*net.TCPListener
	once   sync.Once
	failed chan struct{}
}

func (a *announcing) Accept() (net.Conn, error) {
	connection, err := a.TCPListener.Accept()
	if err != nil {
		a.once.Do(func() { close(a.failed) })
	}
	return connection, err
}

func TestEgressFailureGivesShortReason(t *testing.T) {
	t.Parallel()
	asks, serves, err := namespace.CrossingPair()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = namespace.ServeCrossing(serves, (&net.Dialer{}).DialContext, nil) }()
	inside, err := namespace.NewCrossing(asks)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	ours, server := net.Pipe()
	defer ours.Close()
	go tunnel(plan.Host{}, inside, server)
	const closedPort = "127.0.0.1:1"
	if _, err := io.WriteString(ours, "CONNECT "+closedPort+" HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(ours), nil)
	if want := "502 nobody answers there: connection refused"; err != nil || answer.Status != want {
		t.Errorf("got answer %+v, %v; want status %q", answer, err, want)
	}
	late := fmt.Errorf("dial tcp %s in the other network: %w", closedPort, context.DeadlineExceeded)
	if got, want := reason(late), "nobody answers there within 30s"; got != want {
		t.Errorf("reason() of a time-out = %q, want %q", got, want)
	}
}

// probeIn runs the program's probe with the given attributes, optionally through a script.
func probeIn(t *testing.T, script string, attributes *syscall.SysProcAttr) plan.Status {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script+`; exec "$0" probe`, path)
	cmd.Dir, cmd.SysProcAttr = "/", attributes
	output, err := cmd.Output()
	var s plan.Status
	if parseErr := json.Unmarshal(output, &s); parseErr != nil {
		t.Fatalf("parsing the output of the probe %q: %v, %v", output, parseErr, err)
	}
	return s
}

// ownUserNamespace returns the attributes of a user namespace in which we are root.
func ownUserNamespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

func TestProbeSucceedsWithNamespaces(t *testing.T) {
	t.Parallel()
	if s := probeIn(t, "true", nil); s != (plan.Status{}) {
		t.Errorf("the probe reported %+v, want success", s)
	}
}

func TestProbeNamesDisablingSetting(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"user", "net", "mnt", "pid"} {
		s := probeIn(t, "echo 0 > /proc/sys/user/max_"+kind+"_namespaces", ownUserNamespace())
		if !strings.Contains(s.Reason, "kind "+kind) || !strings.Contains(s.Remedy, "sysctl user.max_"+kind+"_namespaces=") {
			t.Errorf("without %s namespaces, the probe reported %+v", kind, s)
		}
	}
}

// Root could create all other namespaces, but would be the machine's root in them (decision 25).
func TestProbeAsRootRequiresUserNamespace(t *testing.T) {
	t.Parallel()
	if user, _ := namespace.Choose().Owner(); user == os.Getuid() {
		t.Skip("only root outside a user namespace can map IDs that it does not own")
	}
	allIDs := []syscall.SysProcIDMap{{Size: 1<<32 - 1}}
	s := probeIn(t, "echo 0 > /proc/sys/user/max_user_namespaces", &syscall.SysProcAttr{
		// The limit applies to a namespace in which root has the rights of the machine's root.
		Cloneflags:                 syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings:                allIDs,
		GidMappings:                allIDs,
		GidMappingsEnableSetgroups: true,
	})
	if !strings.Contains(s.Reason, "kind user") || !strings.Contains(s.Remedy, "sysctl user.max_user_namespaces=") {
		t.Errorf("the probe reported %+v", s)
	}
}

// containedVariable makes this program run another one as a container engine does: without the right to create
// namespaces.
const containedVariable = "OPERATOR_LABS_TEST_CONTAINED"

func init() {
	if program := os.Getenv(containedVariable); program != "" {
		err := contain()
		if err == nil {
			err = syscall.Exec(program, []string{program, "probe"}, nil)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// contain installs a filter that refuses the system calls that a container without privileges may not make.
func contain() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return container.RuntimeDefault(nil)
}

func TestProbeDetectsUnprivilegedContainer(t *testing.T) {
	t.Parallel()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable)
	cmd.Env = append(os.Environ(), containedVariable+"="+path)
	output, err := cmd.Output()
	var s plan.Status
	if parseErr := json.Unmarshal(output, &s); parseErr != nil {
		t.Fatalf("parsing the output of the probe %q: %v, %v", output, parseErr, err)
	}
	if !strings.Contains(s.Reason, "as in a container without privileges") || !strings.Contains(s.Remedy, "--privileged") {
		t.Errorf("the probe reported %+v", s)
	}
}

func TestRemoveDeletesUnreadableFolders(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "left")
	if err := os.MkdirAll(filepath.Join(dir, "closed", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "remove", dir)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the removed folder still exists: %v", err)
	}
}
