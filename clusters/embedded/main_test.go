// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/progress"
)

// These variables make this test binary the owner of a cluster that a test ends in some violent way, instead of running
// the tests: they select its role, the control plane and the folder.
const (
	roleVariable    = "OPERATOR_LABS_TEST_ROLE"
	programVariable = "OPERATOR_LABS_TEST_PROGRAM"
	versionVariable = "OPERATOR_LABS_TEST_VERSION"
	dirVariable     = "OPERATOR_LABS_TEST_DIR"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := roles[role](&multicall.Program{
			Path:    os.Getenv(programVariable),
			Version: os.Getenv(versionVariable),
		}); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// roles print a line of JSON when their work is done, and end when they read a line from standard input.
var roles = map[string]func(*multicall.Program) error{
	"owner": func(program *multicall.Program) error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		cluster, err := Start(ctx, program)
		if err != nil {
			return err
		}
		printOwned(owned{Dir: cluster.Dir, Port: cluster.port.Port, PIDs: cluster.PIDs()})
		waitForLine()
		if err := cluster.Stop(); err != nil {
			return err
		}
		printOwned(owned{})
		return nil
	},
	"up": func(program *multicall.Program) error {
		playground := &Playground{Dir: os.Getenv(dirVariable)}
		if _, err := playground.Up(context.Background(), program); err != nil {
			return err
		}
		printOwned(owned{Dir: playground.Dir})
		waitForLine()
		return nil
	},
}

// owned is what an owner prints about its cluster.
type owned struct {
	Dir  string
	Port int
	PIDs map[string]int
}

func printOwned(o owned) {
	content, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(content))
}

func waitForLine() { _, _ = bufio.NewReader(os.Stdin).ReadString('\n') }

// actor is this test binary in one of the roles.
type actor struct {
	*exec.Cmd
	stdout *bufio.Reader
	stdin  io.WriteCloser
}

// newActor prepares the test binary for a role, with a TMPDIR of its own.
func newActor(
	t *testing.T, role, executable string, program *multicall.Program, tmp string, variables ...string,
) *actor {
	t.Helper()
	a := &actor{Cmd: exec.Command(executable)}
	a.Dir = "/"
	a.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + tmp, "TMPDIR=" + tmp,
		roleVariable + "=" + role, programVariable + "=" + program.Path, versionVariable + "=" + program.Version,
	}, variables...)
	a.Stderr = os.Stderr
	stdout, err := a.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.stdout = bufio.NewReader(stdout)
	if a.stdin, err = a.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *actor) launch(t *testing.T) {
	t.Helper()
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.kill)
}

func (a *actor) readOwned(t *testing.T) owned {
	t.Helper()
	line, err := a.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("reading the output of an owner: %q, %v", line, err)
	}
	var o owned
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		t.Fatalf("an owner printed %q, want JSON", line)
	}
	return o
}

func (a *actor) kill() {
	_ = a.Process.Kill()
	_ = a.Wait()
}

func testExecutable(t *testing.T) string {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return executable
}

// ensureProgram builds the control plane of this checkout, which takes minutes in a fresh clone.
var ensureProgram = sync.OnceValues(func() (*multicall.Program, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	program, err := multicall.New(root)
	if err != nil || program.Fresh() {
		return program, err
	}
	bar := progress.Start(os.Stderr, "build Kubernetes "+program.Version)
	if err := program.Ensure(context.Background(), bar.Set); err != nil {
		bar.Fail()
		return nil, err
	}
	bar.Done()
	return program, nil
})

func controlPlane(t *testing.T) *multicall.Program {
	t.Helper()
	program, err := ensureProgram()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// shared is the cluster of the tests that do not affect others. TestMain stops it.
var shared struct {
	mutex   sync.Mutex
	cluster *Cluster
}

func sharedCluster(t *testing.T) *Cluster {
	t.Helper()
	shared.mutex.Lock()
	defer shared.mutex.Unlock()
	if shared.cluster == nil {
		// This does not use the test's context, because the cluster outlives the test.
		cluster, err := Start(context.Background(), controlPlane(t))
		if err != nil {
			t.Fatal(err)
		}
		shared.cluster = cluster
	}
	return shared.cluster
}

func stopShared() error {
	if shared.cluster == nil {
		return nil
	}
	return shared.cluster.Stop()
}

func clientOf(t *testing.T, cluster *Cluster) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func clientAt(t *testing.T, playground *Playground) *kubernetes.Clientset {
	t.Helper()
	config, err := playground.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually waits until condition returns true, for two minutes at most. The time is long because others may be using
// the machine, and a slow machine must not make a test fail.
func eventually(t *testing.T, what string, condition func() (bool, error)) {
	t.Helper()
	within(t, 2*time.Minute, what, condition)
}

// within waits until condition returns true, for patience at most.
func within(t *testing.T, patience time.Duration, what string, condition func() (bool, error)) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := condition()
		if err != nil {
			t.Fatalf("waiting until %s: %v", what, err)
		}
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out after %s waiting until %s", patience, what)
		}
	}
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// runs reports whether a process is running. A process that has ended, but whose parent has not waited for it yet, is
// no longer running once the last of its threads has ended.
func runs(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X") || len(threads) > 1
}

// processesWith finds processes by a variable of their environment, as in "TMPDIR=/tmp".
func processesWith(variable string) (pids []int) {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environments {
		environment, err := os.ReadFile(file)
		if err != nil || !strings.Contains("\x00"+string(environment), "\x00"+variable+"\x00") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// free reports whether a program that doesn't share its port can listen on a port of 127.0.0.1.
func free(port int) bool {
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	listener.Close()
	return true
}

// wantGone waits until all processes, files and ports of a cluster are gone.
func wantGone(t *testing.T, o owned) {
	t.Helper()
	for name, pid := range o.PIDs {
		eventually(t, name+" has ended", func() (bool, error) { return !runs(pid), nil })
	}
	eventually(t, o.Dir+" is gone", func() (bool, error) { return !exists(o.Dir), nil })
	eventually(t, "the port is free", func() (bool, error) { return free(o.Port), nil })
}

// listenSomewhere listens on a free port without sharing it, as other programs do.
func listenSomewhere(t *testing.T) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}
