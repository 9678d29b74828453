// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/openfiles"
)

func TestConcurrentClustersAreIndependent(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	program := controlPlane(t)
	var clusters [3]*Cluster
	var starting sync.WaitGroup
	for i := range clusters {
		starting.Go(func() {
			cluster, err := Start(t.Context(), program)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = cluster.Stop() })
			clusters[i] = cluster
		})
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	var ports []int
	for i, cluster := range clusters {
		newConfigMap(t, clientOf(t, cluster), metav1.NamespaceDefault, metav1.ObjectMeta{
			Name: fmt.Sprintf("of-cluster-%d", i), Labels: map[string]string{"of": "test"},
		})
		ports = append(ports, cluster.port.Port)
	}
	slices.Sort(ports)
	if len(slices.Compact(ports)) != len(clusters) {
		t.Errorf("ports = %v, want a different one for each cluster", ports)
	}
	for i, cluster := range clusters {
		list, err := clientOf(t, cluster).CoreV1().ConfigMaps(metav1.NamespaceDefault).List(t.Context(),
			metav1.ListOptions{LabelSelector: "of=test"})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].Name != fmt.Sprintf("of-cluster-%d", i) {
			t.Errorf("cluster %d has ConfigMaps %v, want only its own", i, list.Items)
		}
	}

	stopped := clusters[0]
	was := owned{Dir: stopped.Dir, Port: stopped.port.Port, PIDs: stopped.PIDs()}
	if err := stopped.Stop(); err != nil {
		t.Error(err)
	}
	for name, pid := range was.PIDs {
		if runs(pid) {
			t.Errorf("%s still runs when Stop returns", name)
		}
	}
	if exists(was.Dir) {
		t.Error("the folder still exists when Stop returns")
	}
	if !free(was.Port) {
		t.Error("the port is still in use when Stop returns")
	}
	if _, err := clientOf(t, clusters[1]).Discovery().ServerVersion(); err != nil {
		t.Errorf("Stop affected another cluster: %v", err)
	}
}

func TestKilledOwnerLeavesNothing(t *testing.T) {
	t.Parallel()
	owner := newActor(t, "owner", testExecutable(t), controlPlane(t), t.TempDir())
	owner.launch(t)
	o := owner.readOwned(t)
	for name, pid := range o.PIDs {
		if !runs(pid) {
			t.Fatalf("%s is not running", name)
		}
	}
	if len(o.PIDs) != 4 || !exists(o.Dir) || free(o.Port) {
		t.Fatalf("the cluster is incomplete: %+v", o)
	}
	owner.kill()
	wantGone(t, o)
}

// The run folder's name is too long for the address of a Unix socket, and etcd listens on such sockets. The control
// plane and its prepared store belong to another user, and no other user may read the store.
func TestOrdinaryUserStartsAClusterInALongPath(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	home, err := os.MkdirTemp("", "operator-labs-test-") //nolint:usetesting // t.TempDir lies in a folder that only we can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	tmp := filepath.Join(home, strings.Repeat("a-long-name-", 12))
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	// The programs are copied, because an ordinary user may have no access to the originals.
	program := *controlPlane(t)
	executable := filepath.Join(home, "test")
	copyFile(t, testExecutable(t), executable)
	copyFile(t, program.Path, filepath.Join(home, "controlplane"))
	program.Path = filepath.Join(home, "controlplane")
	owner := newActor(t, "owner", executable, &program, tmp)
	user := os.Getuid()
	if user == 0 {
		user = 65534 // nobody
		store, err := preparedStore(t.Context(), &program)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(home, 0o755), os.Chmod(store, 0o700), os.Chown(tmp, user, user)); err != nil {
			t.Fatal(err)
		}
		owner.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	}
	owner.launch(t)
	o := owner.readOwned(t)
	if len(o.Dir) < 108 {
		t.Errorf("%s is shorter than the limit of a socket address", o.Dir)
	}
	for name, pid := range o.PIDs {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			t.Fatal(err)
		}
		if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != user {
			t.Errorf("%s runs as user %d, want %d", name, uid, user)
		}
	}
	if _, err := io.WriteString(owner.stdin, "stop\n"); err != nil {
		t.Fatal(err)
	}
	owner.readOwned(t)
	wantGone(t, o)
}

// copyFile copies and does not link, because the copy is given to another user.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	source, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(target, source); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantNoRun reports run folders and processes below a TMPDIR as errors.
func wantNoRun(t *testing.T, tmp string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(tmp, "operator-labs-*", "*")); len(left) > 0 {
		t.Errorf("these run folders still exist: %v", left)
	}
	if pids := processesWith("TMPDIR=" + tmp); len(pids) > 0 {
		t.Errorf("these processes are still running: %v", pids)
	}
}

func TestFailedStartGivesReasonAndCleansUp(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{
			"etcd ends with output", "[ $1 = etcd ] || exec sleep 1000\necho 'no disk'\necho 'that is all' >&2\nexit 1\n",
			"the API server to be ready: etcd has ended; the last lines of its log:\n  no disk\n  that is all",
		},
		{
			"etcd ends without output", "[ $1 = etcd ] || exec sleep 1000\nexit 1\n",
			"the API server to be ready: etcd has ended",
		},
		{
			"the API server ends", "[ $1 = etcd ] && exec sleep 1000\necho 'unknown flag'\nexit 1\n",
			"the API server to be ready: kube-apiserver has ended; the last lines of its log:\n  unknown flag",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			program := &multicall.Program{Path: filepath.Join(t.TempDir(), "controlplane"), Version: "v1.2.3"}
			if err := os.WriteFile(program.Path, []byte("#!/bin/sh\n"+test.script), 0o755); err != nil {
				t.Fatal(err)
			}
			cluster, err := Start(t.Context(), program)
			if cluster != nil || err == nil || err.Error() != "starting a cluster: waiting for "+test.want {
				t.Errorf("Start() error = %v", err)
			}
			wantNoRun(t, tmp)
		})
	}
}

func TestStartWithoutProgramFailsAndCleansUp(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	_, err := Start(t.Context(), &multicall.Program{Path: filepath.Join(tmp, "missing")})
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "starting a cluster: starting etcd: ") {
		t.Errorf("Start() error = %v, want one from starting etcd that wraps os.ErrNotExist", err)
	}
	wantNoRun(t, tmp)
}

func TestCancelledStartCleansUp(t *testing.T) {
	program := controlPlane(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		// Cancel once there is something to clean up.
		for tick := time.Tick(10 * time.Millisecond); len(processesWith("TMPDIR="+tmp)) < 2 && ctx.Err() == nil; {
			<-tick
		}
		cancel(interrupted)
	}()
	_, err := Start(ctx, program)
	if !errors.Is(err, interrupted) {
		t.Errorf("Start() error = %v, want %v", err, interrupted)
	}
	wantNoRun(t, tmp)
}

// Variables that a user has set for another etcd must not reach ours, which would refuse to start with them.
func TestProgramsDoNotInheritEtcdVariables(t *testing.T) {
	t.Setenv("ETCD_NAME", "somebody-elses")
	t.Setenv("HOME", "/home/student")
	for _, variable := range environment() {
		if strings.HasPrefix(variable, "ETCD_") {
			t.Errorf("the programs inherit %s", variable)
		}
	}
	if !slices.Contains(environment(), "HOME=/home/student") {
		t.Error("the programs do not inherit HOME")
	}
}

func TestReservedPortsAreUnique(t *testing.T) {
	t.Parallel()
	held := map[int]bool{}
	for range 100 {
		port, err := reservePort(0)
		if err != nil {
			t.Fatal(err)
		}
		defer port.Release()
		if held[port.Port] {
			t.Fatalf("port %d was reserved twice", port.Port)
		}
		held[port.Port] = true
		if free(port.Port) {
			t.Errorf("another program can listen on the reserved port %d", port.Port)
		}
	}
}

func TestReservePortNamesTakenPort(t *testing.T) {
	t.Parallel()
	listener := listenSomewhere(t)
	_, err := reservePort(listener)
	want := fmt.Sprintf("port %d on 127.0.0.1, which the cluster used before, is now in use by another program: "+
		"stop that program (`ss -ltnp` names it), or start again with `make down` and `make up`", listener)
	if err == nil || err.Error() != want {
		t.Errorf("reservePort() error = %v, want %s", err, want)
	}
}

// The error names the low limit of open files, and the remedy. The logs of etcd and the API server do not mention the
// limit.
func TestTooFewOpenFiles(t *testing.T) {
	t.Parallel()
	program := controlPlane(t)
	for limit, starts := range map[int]bool{64: false, openfiles.Least - 1: false, openfiles.Least: true} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			t.Parallel()
			owner := newActor(t, "owner", "/bin/sh", program, t.TempDir())
			owner.Args = []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0"`, limit), testExecutable(t)}
			owner.launch(t)
			output, err := owner.stdout.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			named := strings.HasPrefix(output, fmt.Sprintf("error: starting a cluster: "+
				"the system allows a program %d open files, and a cluster needs %d: raise ", limit, openfiles.Least))
			if named == starts || starts && !strings.HasPrefix(output, "{") {
				t.Errorf("with a limit of %d open files, want started = %t, got output %s", limit, starts, output)
			}
		})
	}
}
