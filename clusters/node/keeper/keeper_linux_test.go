// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/keeper"
	"lva.io/operators/clusters/node/nodetest"
)

// timeout is how long a test may take. It only prevents tests from hanging. Most take milliseconds on a quiet machine,
// and some a few seconds.
const timeout = 2 * time.Minute

// shared is the only keeper that a process can have, because it waits for all children.
var shared = sync.OnceValues(func() (*keeper.Client, error) {
	socket := "/mnt/keeper.sock"
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	go keeper.New().Serve(listener)
	return &keeper.Client{Socket: socket}, nil
})

func client(t *testing.T) (*keeper.Client, context.Context) {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return c, ctx
}

// start starts a shell script as a container, named like the test, and returns the file of its log.
func start(
	ctx context.Context, t *testing.T, c *keeper.Client, script string, change ...func(*keeper.Start),
) (id, log string) {
	t.Helper()
	s := keeper.Start{ID: t.Name(), Spec: shell(t, script), Log: filepath.Join(t.TempDir(), "log")}
	for _, f := range change {
		f(&s)
	}
	if _, err := c.Start(ctx, s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := c.Kill(ctx, s.ID); err != nil && !errors.Is(err, keeper.ErrMissing) {
			t.Error(err)
		}
		if _, err := c.Wait(ctx, s.ID); err != nil && !errors.Is(err, keeper.ErrMissing) {
			t.Error(err)
		}
		_ = c.Forget(ctx, s.ID) // the test may have done this already
	})
	return s.ID, s.Log
}

func shell(t *testing.T, script string) container.Spec {
	t.Helper()
	return container.Spec{
		Args:         []string{"/bin/sh", "-c", script},
		Env:          []string{"PATH=" + container.Path},
		Root:         container.Root{Dir: t.TempDir()},
		Mounts:       nodetest.MachinePrograms(),
		Capabilities: container.Unprivileged,
	}
}

// wait waits for the end of a container.
func wait(ctx context.Context, t *testing.T, c *keeper.Client, id string) keeper.State {
	t.Helper()
	state, err := c.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func contains(file, text string) bool {
	content, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(content), text)
}

// await calls yes until it returns true.
func await(ctx context.Context, t *testing.T, what string, yes func() bool) {
	t.Helper()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-tick.C:
			if yes() {
				return
			}
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, context.Cause(ctx))
		}
	}
}

func TestWaitReturnsExitCode(t *testing.T) {
	c, ctx := client(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 9": 9, "kill -KILL $$; sleep 9": 128 + 9} {
		t.Run(script, func(t *testing.T) {
			if strings.Contains(script, "kill") {
				// The first process of a namespace ignores signals that it sends to itself.
				script = `sh -c 'kill -KILL $$'; exit $?`
			}
			id, _ := start(ctx, t, c, script)
			if state := wait(ctx, t, c, id); state.Code != want || state.Running() {
				t.Errorf("Wait() = %+v, want exit code %d", state, want)
			}
		})
	}
}

func TestFailedContainerIsNotKept(t *testing.T) {
	c, ctx := client(t)
	spec := shell(t, "")
	spec.Args = []string{"/no/such"}
	_, err := c.Start(ctx, keeper.Start{ID: t.Name(), Spec: spec})
	if _, ok := errors.AsType[*container.StartError](err); !ok {
		t.Errorf("Start() error = %v, want a StartError", err)
	}
	if _, err := c.Wait(ctx, t.Name()); !errors.Is(err, keeper.ErrMissing) {
		t.Errorf("Wait() error after a failed start = %v, want ErrMissing", err)
	}
}

func TestConcurrentStartRunsOnce(t *testing.T) {
	c, ctx := client(t)
	const callers = 8
	results := make(chan error, callers)
	s := keeper.Start{ID: t.Name(), Spec: shell(t, `exec sleep 779`), Log: filepath.Join(t.TempDir(), "log")}
	for range callers {
		go func() {
			_, err := c.Start(ctx, s)
			results <- err
		}()
	}
	started := 0
	for range callers {
		if err := <-results; err == nil {
			started++
		} else if !strings.Contains(err.Error(), "already") {
			t.Error(err)
		}
	}
	await(ctx, t, "the program", func() bool { return running("sleep", "779") > 0 })
	if found := running("sleep", "779"); started != 1 || found != 1 {
		t.Errorf("%d of %d calls started the container, and %d processes run; want one of each", started, callers, found)
	}
	if err := c.Kill(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	wait(ctx, t, c, s.ID)
	if err := c.Forget(ctx, s.ID); err != nil {
		t.Error(err)
	}
}

func TestRunExecutesInContainer(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `echo there > /file; echo ready; exec sleep 1000`)
	await(ctx, t, "the container", func() bool { return contains(log, "ready") })
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	code, err := c.Run(ctx, id, shell(t, `cat /file; exit 4`), container.Streams{Out: write})
	if err != nil || code != 4 {
		t.Errorf("Run() = %d, %v; want exit code 4", code, err)
	}
	if output, err := io.ReadAll(read); err != nil || string(output) != "there\n" {
		t.Errorf("got output %q, %v", output, err)
	}
}

func TestCancelledRunKillsItsProcesses(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `echo ready; exec sleep 1000`)
	await(ctx, t, "the container", func() bool { return contains(log, "ready") })
	short, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(short, id, shell(t, `sleep 777 & sleep 777`), container.Streams{})
		ended <- err
	}()
	await(ctx, t, "the programs", func() bool { return running("sleep", "777") == 2 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run() error = %v, want context.Canceled", err)
	}
	await(ctx, t, "the end of the programs", func() bool { return running("sleep", "777") == 0 })
}

func TestAttach(t *testing.T) {
	c, ctx := client(t)
	id, _ := start(ctx, t, c, `while read line; do echo "heard $line"; echo "and $line" >&2; done; exit 5`,
		func(s *keeper.Start) { s.Stdin, s.StdinOnce = true, true })
	var out, errs bytes.Buffer
	if err := c.Attach(ctx, id, strings.NewReader("a\nb\n"), &out, &errs); err != nil {
		t.Fatal(err)
	}
	if out.String() != "heard a\nheard b\n" || errs.String() != "and a\nand b\n" {
		t.Errorf("got output %q and errors %q", out.String(), errs.String())
	}
	if state := wait(ctx, t, c, id); state.Code != 5 {
		t.Errorf("Wait() = %+v, want exit code 5", state)
	}
}

// The program asks without an end of line, and the client answers only when it sees the question.
func TestAttachedClientSeesIncompleteLine(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `printf "ready\n"; read go; printf "name? "; read name; echo "hello $name"`,
		func(s *keeper.Start) { s.Stdin = true })
	await(ctx, t, "the program", func() bool { return contains(log, "ready") })
	in, answers := io.Pipe()
	defer answers.Close()
	output, out := io.Pipe()
	attached := make(chan error, 1)
	go func() {
		err := c.Attach(ctx, id, in, out, io.Discard)
		out.Close()
		attached <- err
	}()
	for _, step := range []struct{ answer, want string }{{"go\n", "name? "}, {"cow\n", "hello cow\n"}} {
		go func() { _, _ = io.WriteString(answers, step.answer) }()
		got := make([]byte, len(step.want))
		if _, err := io.ReadFull(output, got); err != nil || string(got) != step.want {
			t.Fatalf("after %q, got %q, %v; want %q", step.answer, got, err, step.want)
		}
	}
	if err := <-attached; err != nil {
		t.Error(err)
	}
	wait(ctx, t, c, id)
	if !contains(log, "stdout F name? hello cow") {
		t.Error("the log does not have the whole line")
	}
}

func TestTerminal(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `test -t 0 && test -t 1 && echo yes; stty size < /dev/console`,
		func(s *keeper.Start) { s.Spec.Terminal = true })
	if state := wait(ctx, t, c, id); state.Code != 0 {
		t.Errorf("Wait() = %+v, want exit code 0", state)
	}
	if !contains(log, "stdout F yes") {
		content, _ := os.ReadFile(log)
		t.Errorf("log = %q, want a line with yes", content)
	}
}

func TestForgetRequiresExitedContainer(t *testing.T) {
	c, ctx := client(t)
	id, _ := start(ctx, t, c, `exec sleep 1000`)
	if err := c.Forget(ctx, id); err == nil {
		t.Error("Forget() of a running container returned no error")
	}
	if err := c.Kill(ctx, id); err != nil {
		t.Fatal(err)
	}
	wait(ctx, t, c, id)
	if err := c.Forget(ctx, id); err != nil {
		t.Error(err)
	}
	states, err := c.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range states {
		if state.ID == id {
			t.Errorf("the forgotten container is still listed: %+v", state)
		}
	}
}
