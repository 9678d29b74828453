// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/keeper"
	"lva.io/operators/clusters/node/nodetest"
)

// soon is how long a test may take. It only keeps one from hanging: most take milliseconds on a quiet machine, and some
// a few seconds.
const soon = 2 * time.Minute

// shared is the only keeper that a process may have: it waits for all children.
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
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	return c, ctx
}

// start starts a shell script as a container, named like the test, and returns the file of its log.
func start(ctx context.Context, t *testing.T, c *keeper.Client, script string, change ...func(*keeper.Start)) (id, log string) {
	t.Helper()
	s := keeper.Start{ID: t.Name(), Spec: shell(t, script), Log: filepath.Join(t.TempDir(), "log")}
	for _, f := range change {
		f(&s)
	}
	if _, err := c.Start(ctx, s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := c.Kill(ctx, s.ID); err != nil && !errors.Is(err, keeper.ErrMissing) {
			t.Error(err)
		}
		if _, err := c.Wait(ctx, s.ID); err != nil && !errors.Is(err, keeper.ErrMissing) {
			t.Error(err)
		}
		_ = c.Forget(ctx, s.ID) // the test may have done it
	})
	return s.ID, s.Log
}

func shell(t *testing.T, script string) container.Spec {
	t.Helper()
	return container.Spec{
		Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=" + container.Path}, Root: container.Root{Dir: t.TempDir()},
		Mounts: nodetest.MachinePrograms(), Capabilities: container.Unprivileged,
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

func TestALogHasEachLineWithItsStream(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `echo one; echo two >&2; printf three`)
	wait(ctx, t, c, id)
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	line := `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z `
	for _, want := range []string{"stdout F one", "stderr F two", "stdout P three"} {
		if !regexp.MustCompile(`(?m)^` + line + want + `$`).Match(content) {
			t.Errorf("%q is missing in\n%s", want, content)
		}
	}
}

func TestALogIsWholeWhenTheContainerHasEnded(t *testing.T) {
	c, ctx := client(t)
	const lines = 50_000
	id, log := start(ctx, t, c, fmt.Sprintf(`seq %d`, lines))
	wait(ctx, t, c, id)
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		if want := fmt.Sprintf(" stdout F %d\n", number); !strings.HasSuffix(line, want) {
			t.Fatalf("line %d is %q", number, line)
		}
	}
	if number != lines {
		t.Errorf("the log has %d lines, want %d", number, lines)
	}
}

func TestALongLineIsInParts(t *testing.T) {
	c, ctx := client(t)
	const length = 100_000
	id, log := start(ctx, t, c, fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; echo; echo end`, length))
	wait(ctx, t, c, id)
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if found := strings.Count(string(content), "x"); found != length {
		t.Errorf("%d of %d characters are there", found, length)
	}
	if !strings.Contains(string(content), " stdout P x") || !strings.HasSuffix(string(content), " stdout F end\n") {
		t.Errorf("there are no parts, or the end is missing")
	}
}

func TestALogGoesOnInANewFile(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `echo before; read line; echo after`, func(s *keeper.Start) { s.Stdin = true })
	await(ctx, t, "the first line", func() bool { return contains(log, "before") })
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Reopen(ctx, id, log); err != nil {
		t.Fatal(err)
	}
	if err := c.Attach(ctx, id, strings.NewReader("go\n"), io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	wait(ctx, t, c, id)
	if !contains(log, "after") || contains(log, "before") || !contains(log+".1", "before") {
		t.Error("the lines are not in their files")
	}
}

func TestAProgramThatSaysTooMuchWaitsForANewFile(t *testing.T) {
	c, ctx := client(t)
	const longest, more = 128 << 20, 1 << 20
	id, log := start(ctx, t, c, fmt.Sprintf(`yes $(printf %%01000d 0) | head -c %d; echo; echo end`, longest+20*more))
	length := func(file string) int64 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	await(ctx, t, "a long file", func() bool { return length(log) >= longest })
	if contains(log, "end") || length(log) > longest+more { // after it was read, which takes longer than to write the rest
		t.Errorf("the file has %d bytes", length(log))
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Reopen(ctx, id, log); err != nil {
		t.Fatal(err)
	}
	wait(ctx, t, c, id)
	if !contains(log, "F end\n") || length(log) > 40*more { // with the beginnings of the lines
		t.Errorf("the new file has %d bytes, and may lack the end", length(log))
	}

	// Who is killed while it waits has ended.
	s := keeper.Start{ID: t.Name() + "-killed", Spec: shell(t, `exec yes $(printf %01000d 0)`), Log: log + ".2"}
	if _, err := c.Start(ctx, s); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "a long file", func() bool { return length(s.Log) >= longest })
	if err := c.Kill(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if state := wait(ctx, t, c, s.ID); state.Code != 137 {
		t.Errorf("it is %+v", state)
	}
	if err := c.Forget(ctx, s.ID); err != nil {
		t.Error(err)
	}
}

func contains(file, text string) bool {
	content, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(content), text)
}

// await repeats a question until the answer is yes.
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

func TestTheEndOfAContainerIsKnown(t *testing.T) {
	c, ctx := client(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 9": 9, "kill -KILL $$; sleep 9": 128 + 9} {
		t.Run(script, func(t *testing.T) {
			if strings.Contains(script, "kill") {
				script = `sh -c 'kill -KILL $$'; exit $?` // the first process of a namespace is deaf to its own signals
			}
			id, _ := start(ctx, t, c, script)
			if state := wait(ctx, t, c, id); state.Code != want || state.Running() {
				t.Errorf("it is %+v, want the code %d", state, want)
			}
		})
	}
}

func TestAContainerThatCannotStartIsNotKept(t *testing.T) {
	c, ctx := client(t)
	spec := shell(t, "")
	spec.Args = []string{"/no/such"}
	_, err := c.Start(ctx, keeper.Start{ID: t.Name(), Spec: spec})
	if _, ok := errors.AsType[*container.StartError](err); !ok {
		t.Errorf("the error is %v", err)
	}
	if _, err := c.Wait(ctx, t.Name()); !errors.Is(err, keeper.ErrMissing) {
		t.Errorf("it is kept: %v", err)
	}
}

func TestASignalReachesTheProgramAndKillEndsAll(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `trap 'echo told' TERM; echo ready; while true; do sleep 0.01; done`)
	await(ctx, t, "the program", func() bool { return contains(log, "ready") })
	if err := c.Signal(ctx, id, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "the signal", func() bool { return contains(log, "told") })
	if err := c.Kill(ctx, id); err != nil {
		t.Fatal(err)
	}
	if state := wait(ctx, t, c, id); state.Code != 128+9 {
		t.Errorf("it is %+v", state)
	}
}

func TestAContainerIsStartedOnce(t *testing.T) {
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
		t.Errorf("%d of %d calls have started it, and %d processes run", started, callers, found)
	}
	if err := c.Kill(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	wait(ctx, t, c, s.ID)
	if err := c.Forget(ctx, s.ID); err != nil {
		t.Error(err)
	}
}

func TestNothingOfAContainerIsLeftWhereProcessesAreShared(t *testing.T) {
	c, ctx := client(t)
	first, _ := start(ctx, t, c, `exec sleep 780`, func(s *keeper.Start) { s.ID += "-first" })
	other, log := start(ctx, t, c, `(setsid sleep 781 &); echo ready; exec sleep 782`, func(s *keeper.Start) {
		s.ID, s.Processes = s.ID+"-other", first
	})
	await(ctx, t, "the other container", func() bool { return contains(log, "ready") && running("sleep", "781") == 1 })
	for name, test := range map[string]struct {
		last   string
		kill   bool
		shares func(*keeper.Start)
	}{
		"killed":   {"exec sleep 784", true, func(s *keeper.Start) { s.Processes = first }},
		"ended":    {"sleep 0.1; exit 3", false, func(s *keeper.Start) { s.Processes = first }},
		"the node": {"exec sleep 784", true, func(s *keeper.Start) { s.Spec.NodeProcesses = true }},
	} {
		t.Run(name, func(t *testing.T) {
			// The daemon's parent is the first process of the namespace, that of another container.
			script := `(setsid sleep 783 > /dev/null 2>&1 &); echo ready; ` + test.last
			id, log := start(ctx, t, c, script, test.shares)
			await(ctx, t, "the container", func() bool { return contains(log, "ready") })
			if test.kill {
				await(ctx, t, "the daemon", func() bool { return running("sleep", "783") == 1 })
				if err := c.Kill(ctx, id); err != nil {
					t.Fatal(err)
				}
			}
			wait(ctx, t, c, id)
			if left := running("sleep", "783"); left != 0 {
				t.Errorf("%d processes of it are left", left)
			}
		})
	}
	for _, id := range []string{first, other} {
		states, err := c.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(states, func(s keeper.State) bool { return s.ID == id && s.Running() }) {
			t.Errorf("%s does not run any more", id)
		}
	}
	if found := running("sleep", "781"); found != 1 {
		t.Errorf("%d processes of another container's daemon run", found)
	}
}

// Here a process has left its parent, and the container's processes and mounts. It can only be found by its control
// group.
func TestNothingIsLeftInAControlGroup(t *testing.T) {
	group := nodetest.Group(t)
	c, ctx := client(t)
	first, _ := start(ctx, t, c, `exec sleep 786`, func(s *keeper.Start) { s.ID += "-first" })
	id, log := start(ctx, t, c, `unshare --mount setsid sleep 787 & echo ready; exec sleep 788`, func(s *keeper.Start) {
		s.Processes, s.Spec.Cgroup = first, group
		s.Spec.Capabilities = append(slices.Clone(container.Unprivileged), "SYS_ADMIN")
	})
	await(ctx, t, "the container", func() bool { return contains(log, "ready") && running("sleep", "787") == 1 })
	if err := c.Kill(ctx, id); err != nil {
		t.Fatal(err)
	}
	wait(ctx, t, c, id)
	await(ctx, t, "the end of what has left the container", func() bool { return running("sleep", "787") == 0 })
	if found := running("sleep", "786"); found != 1 {
		t.Errorf("%d processes of another container run", found)
	}
}

func TestASignalReachesNoOtherProcessOfTheSameNumber(t *testing.T) {
	c, ctx := client(t)
	id, _ := start(ctx, t, c, `exit 0`)
	before := wait(ctx, t, c, id)
	for attempt := 0; ; attempt++ {
		// The kernel gives the next number to the next process or thread. (proc_sys_kernel(5))
		last := strconv.Itoa(before.PID - 1)
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(last), 0); err != nil {
			t.Fatal(err)
		}
		other := fmt.Sprint(t.Name(), "-", attempt)
		start(ctx, t, c, `exec sleep 785`, func(s *keeper.Start) { s.ID = other })
		states, err := c.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(states, func(s keeper.State) bool { return s.ID == other })
		if states[at].PID != before.PID {
			continue
		}
		for _, end := range []func() error{
			func() error { return c.Signal(ctx, id, unix.SIGKILL) }, func() error { return c.Kill(ctx, id) },
		} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Run(ctx, other, shell(t, `kill -0 1`), container.Streams{}); err != nil {
			t.Errorf("the other container was reached: %v", err)
		}
		return
	}
}

// running counts the processes with these arguments.
func running(arguments ...string) (count int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && string(line) == strings.Join(arguments, "\x00")+"\x00" {
			count++
		}
	}
	return count
}

func TestOrphansAreBuried(t *testing.T) {
	c, ctx := client(t)
	// A Pod whose containers share processes: what one leaves behind has nobody but the first process.
	first, _ := start(ctx, t, c, `trap 'exit 0' TERM; while true; do sleep 0.01; done`, func(s *keeper.Start) { s.ID += "-first" })
	id, _ := start(ctx, t, c, `(setsid sh -c 'sleep 0.05' &); exit 0`, func(s *keeper.Start) { s.Processes = first })
	wait(ctx, t, c, id)
	await(ctx, t, "no zombies of ours", func() bool { return zombies(t, os.Getpid()) == 0 })
}

// zombies counts the children of a process that have ended and that nobody has waited for.
func zombies(t *testing.T, parent int) (count int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[0] == "Z" && fields[1] == strconv.Itoa(parent) {
			count++
		}
	}
	return count
}

func TestAProgramRunsInAContainer(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `echo there > /file; echo ready; exec sleep 1000`)
	await(ctx, t, "the container", func() bool { return contains(log, "ready") })
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	code, err := c.Run(ctx, id, shell(t, `cat /file; exit 4`), container.Streams{Out: write})
	if err != nil || code != 4 {
		t.Errorf("it ended with %d, %v", code, err)
	}
	if said, err := io.ReadAll(read); err != nil || string(said) != "there\n" {
		t.Errorf("it said %q, %v", said, err)
	}
}

func TestAProgramEndsWithWhoAskedForIt(t *testing.T) {
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
		t.Errorf("the error is %v", err)
	}
	await(ctx, t, "the end of the programs", func() bool { return running("sleep", "777") == 0 })
}

func TestWhoIsAttachedHearsAndIsHeard(t *testing.T) {
	c, ctx := client(t)
	id, _ := start(ctx, t, c, `while read line; do echo "heard $line"; echo "and $line" >&2; done; exit 5`,
		func(s *keeper.Start) { s.Stdin, s.StdinOnce = true, true })
	var out, errs bytes.Buffer
	if err := c.Attach(ctx, id, strings.NewReader("a\nb\n"), &out, &errs); err != nil {
		t.Fatal(err)
	}
	if out.String() != "heard a\nheard b\n" || errs.String() != "and a\nand b\n" {
		t.Errorf("it said %q and %q", out.String(), errs.String())
	}
	if state := wait(ctx, t, c, id); state.Code != 5 {
		t.Errorf("it is %+v", state)
	}
}

func TestATerminalIsOne(t *testing.T) {
	c, ctx := client(t)
	id, log := start(ctx, t, c, `test -t 0 && test -t 1 && echo yes; stty size < /dev/console`,
		func(s *keeper.Start) { s.Spec.Terminal = true })
	if state := wait(ctx, t, c, id); state.Code != 0 {
		t.Errorf("it is %+v", state)
	}
	if !contains(log, "stdout F yes") {
		content, _ := os.ReadFile(log)
		t.Errorf("it said %q", content)
	}
}

func TestAContainerIsForgottenOnlyWhenItHasEnded(t *testing.T) {
	c, ctx := client(t)
	id, _ := start(ctx, t, c, `exec sleep 1000`)
	if err := c.Forget(ctx, id); err == nil {
		t.Error("one that runs was forgotten")
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
			t.Errorf("it is still there: %+v", state)
		}
	}
}
