// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/multicall"
)

func newPlayground(t *testing.T) *Playground {
	t.Helper()
	playground := NewPlayground(t.TempDir())
	t.Cleanup(func() {
		if _, err := playground.Down(); err != nil {
			t.Error(err)
		}
	})
	return playground
}

// startUpProcess starts Up in another process.
func startUpProcess(t *testing.T, playground *Playground) *actor {
	t.Helper()
	a := newActor(t, "up", testExecutable(t), controlPlane(t), t.TempDir(), dirVariable+"="+playground.Dir)
	a.launch(t)
	return a
}

func up(t *testing.T, playground *Playground) (started bool) {
	t.Helper()
	started, err := playground.Up(t.Context(), controlPlane(t))
	if err != nil {
		t.Fatal(err)
	}
	return started
}

func stateOf(t *testing.T, playground *Playground) playgroundState {
	t.Helper()
	state, err := playground.readState()
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// processesOf returns the processes that carry the mark of the playground's scope.
func processesOf(scope string) []int { return processesWith("OPERATOR_LABS_SCOPE=" + scope) }

// guardOf finds the guard that a process has started.
func guardOf(t *testing.T, owner int) (guard int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		stat, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(stat), ") ")
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(owner) &&
			bytes.HasPrefix(command, []byte("operator-labs-guard")) {
			guard, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return guard
		}
	}
	t.Fatal("the owner has no guard")
	return 0
}

func TestCommandsReportMissingPlayground(t *testing.T) {
	t.Parallel()
	playground := NewPlayground(t.TempDir())
	if was, err := playground.Down(); was || err != nil {
		t.Errorf("Down() = %t, %v; want false", was, err)
	}
	if _, err := playground.Status(t.Context()); !errors.Is(err, ErrDown) {
		t.Errorf("Status() error = %v, want %v", err, ErrDown)
	}
	if _, err := playground.Config(); !errors.Is(err, ErrDown) {
		t.Errorf("Config() error = %v, want %v", err, ErrDown)
	}
	if exists(playground.Dir) {
		t.Error("a read-only command created the folder")
	}
}

func TestPlaygroundLockExcludesOtherCommands(t *testing.T) {
	t.Parallel()
	playground := newPlayground(t)
	unlock, err := playground.lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	const want = "another command is starting or stopping the playground: wait until it has finished"
	if _, err := playground.Up(t.Context(), &multicall.Program{}); err == nil || err.Error() != want {
		t.Errorf("Up() error = %v, want %s", err, want)
	}
	if _, err := playground.Down(); err == nil || err.Error() != want {
		t.Errorf("Down() error = %v, want %s", err, want)
	}
}

// A command that waits for a Down finds the playground's folder removed.
func TestPlaygroundLockCreatesTheFolder(t *testing.T) {
	t.Parallel()
	playground := newPlayground(t)
	unlockDown, err := playground.lock()
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		unlock, err := playground.lock()
		for err != nil && strings.Contains(err.Error(), "wait until it has finished") { // this machine is busy
			unlock, err = playground.lock()
		}
		if err == nil {
			unlock()
		}
		waiting <- err
	}()
	<-time.After(50 * time.Millisecond) // usually it waits by then; the test passes if it does not
	if err := os.RemoveAll(playground.Dir); err != nil {
		t.Fatal(err)
	}
	unlockDown()
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	if !exists(playground.Dir) {
		t.Error("the folder does not exist")
	}
}

// This is one test, because each step begins with the state that the step before it left.
func TestPlaygroundSurvivesKilledProcesses(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	playground := newPlayground(t)

	// The first Up is killed in the middle, and its guard before it, so nothing is left to clean up after it.
	interrupted := startUpProcess(t, playground)
	eventually(t, "the API server has been started", func() (bool, error) {
		return exists(filepath.Join(playground.Dir, "kube-apiserver.log")), nil
	})
	if err := syscall.Kill(guardOf(t, interrupted.Process.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	interrupted.kill()
	before := stateOf(t, playground)
	if len(processesOf(before.Scope)) == 0 {
		t.Fatal("the interrupted Up left no processes, so there is nothing to test")
	}
	if status, err := playground.Status(t.Context()); err == nil && status.running() {
		t.Error("after an interrupted Up, Status reports that all programs are running")
	}

	// The second one ends what the first one left, succeeds, and is killed afterwards.
	commanded := startUpProcess(t, playground)
	commanded.readOwned(t)
	if left := processesOf(before.Scope); len(left) > 0 {
		t.Errorf("processes of the interrupted Up are still running: %v", left)
	}
	commanded.kill()
	status, err := playground.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !status.running() || status.Ready != nil || status.Version != controlPlane(t).Version || len(status.Programs) != 4 {
		t.Fatalf("after the command that started it was killed, Status() = %+v, want a ready playground", status)
	}
	config, err := playground.Config()
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != status.Host {
		t.Errorf("Status has host %s, the kubeconfig has %s", status.Host, config.Host)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	newConfigMap(t, client, metav1.NamespaceDefault, metav1.ObjectMeta{Name: "kept"})
	kubeconfig, err := os.ReadFile(playground.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}

	// The third one has nothing to do.
	running := stateOf(t, playground)
	if up(t, playground) {
		t.Error("Up restarted a running playground")
	}
	if now := stateOf(t, playground); !maps.Equal(now.PIDs, running.PIDs) || now.Scope != running.Scope {
		t.Errorf("Up changed the playground from %+v to %+v", running, now)
	}

	// When one of its programs is killed, Status reports it, and Up repairs the playground without losing data.
	if err := syscall.Kill(running.PIDs["etcd"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Status reports that etcd has ended", func() (bool, error) {
		status, err := playground.Status(t.Context())
		return err == nil && !status.Programs["etcd"] && status.Programs["kube-apiserver"], err
	})
	// The API server's page of checks has 2,000 characters. Status reports only the failed ones.
	eventually(t, "Status names the API server's failed check of etcd", func() (bool, error) {
		status, err := playground.Status(t.Context())
		return err == nil && status.Ready != nil &&
			regexp.MustCompile(`^it is not ready: its checks of etcd(, [a-z-]+)* fail$`).MatchString(status.Ready.Error()), err
	})
	if !up(t, playground) {
		t.Error("Up did not repair the playground")
	}
	for name, pid := range running.PIDs {
		eventually(t, "the earlier "+name+" has ended", func() (bool, error) { return !runs(pid), nil })
	}
	after, err := os.ReadFile(playground.Kubeconfig())
	if err != nil || !bytes.Equal(after, kubeconfig) {
		t.Errorf("the kubeconfig has changed, or can't be read: %v", err)
	}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(
		t.Context(), "kept", metav1.GetOptions{},
	); err != nil {
		t.Errorf("getting the earlier ConfigMap: %v", err)
	}

	ending := stateOf(t, playground)
	if was, err := playground.Down(); !was || err != nil {
		t.Errorf("Down() = %t, %v; want true", was, err)
	}
	wantGone(t, owned{Dir: playground.Dir, Port: portIn(t, config.Host), PIDs: ending.PIDs})
	if left := processesOf(ending.Scope); len(left) > 0 {
		t.Errorf("after Down, these processes are still running: %v", left)
	}
	if was, err := playground.Down(); was || err != nil {
		t.Errorf("second Down() = %t, %v; want false", was, err)
	}
}

func portIn(t *testing.T, host string) int {
	t.Helper()
	address, err := url.Parse(host)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestFailedPlaygroundStartLeavesNoProcess(t *testing.T) {
	t.Parallel()
	playground := newPlayground(t)
	program := &multicall.Program{Path: filepath.Join(t.TempDir(), "controlplane"), Version: "v1.2.3"}
	const script = "#!/bin/sh\n[ $1 = etcd ] && exec sleep 1000\necho 'unknown flag'\nexit 1\n"
	if err := os.WriteFile(program.Path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := playground.Up(t.Context(), program); err == nil ||
		!strings.HasSuffix(err.Error(), "the last lines of its log:\n  unknown flag") {
		t.Errorf("Up() error = %v, want one that ends with the last lines of the log", err)
	}
	if left := processesOf(stateOf(t, playground).Scope); len(left) > 0 {
		t.Errorf("after a failed Up, these processes are still running: %v", left)
	}
	if was, err := playground.Down(); !was || err != nil {
		t.Errorf("Down() = %t, %v; want true", was, err)
	}
}

func TestBrokenPlaygroundStateGivesRemedy(t *testing.T) {
	t.Parallel()
	playground := NewPlayground(t.TempDir())
	if err := os.MkdirAll(playground.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(playground.stateFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("remove %s, and", playground.Dir)
	if _, err := playground.Up(t.Context(), &multicall.Program{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Up() error = %v", err)
	}
	if _, err := playground.Down(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Down() error = %v", err)
	}
}
