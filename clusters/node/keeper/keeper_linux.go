// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
)

// Keeper keeps containers. All methods are safe for concurrent use.
type Keeper struct {
	reaper *reaper

	mutex      sync.Mutex
	containers map[string]*kept
}

// kept is a container.
type kept struct {
	spec      container.Spec
	log       *containerLog
	input     *os.File // what is written there, it reads. nil: it reads nothing
	terminal  *os.File
	stdinOnce bool

	mutex sync.Mutex
	state State
	ended chan struct{}
}

// New is a keeper without containers. This process must be the first of its process namespace, and nobody else in it may wait for
// children (wait(2)): Supervise starts those that are not containers.
func New() *Keeper { return &Keeper{reaper: newReaper(), containers: map[string]*kept{}} }

// Serve answers until the listener is closed.
func (k *Keeper) Serve(listener *net.UnixListener) error {
	for {
		connection, err := listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("waiting for requests about containers: %w", err)
		}
		go k.serve(connection)
	}
}

func (k *Keeper) serve(connection *net.UnixConn) {
	defer connection.Close()
	var r request
	files, err := read(connection, &r)
	if err != nil {
		return // nobody waits for an answer
	}
	defer closeAll(files)
	var a answer
	switch r.Ask {
	case askStart:
		a.State, err = k.start(r, files)
	case askRun:
		err = k.run(connection, r, files)
		if err == nil {
			return
		}
	case askAttach:
		err = k.attach(connection, r)
		if err == nil {
			return
		}
	case askList:
		a.States = k.list()
	default:
		a.State, err = k.about(connection, r)
	}
	var notStarted *container.StartError
	if err != nil {
		a.Error, a.Missing, a.NotStarted = err.Error(), errors.Is(err, ErrMissing), errors.As(err, &notStarted)
	}
	_ = send(connection, a) // who asked may have gone
}

func (k *Keeper) find(id string) (*kept, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if c := k.containers[id]; c != nil {
		return c, nil
	}
	return nil, ErrMissing
}

// about does what concerns a container that is there.
func (k *Keeper) about(connection *net.UnixConn, r request) (*State, error) {
	c, err := k.find(r.ID)
	if err != nil {
		return nil, err
	}
	switch r.Ask {
	case askSignal:
		err = k.reaper.signal(c.snapshot().PID, unix.Signal(r.Signal))
	case askKill:
		err = k.kill(c)
	case askWait:
		if !waitFor(connection, c.ended) {
			return nil, errors.New("nobody waits any more")
		}
	case askReopen:
		err = c.log.reopen(r.Log)
	case askForget:
		err = k.forget(r.ID, c)
	case askResize:
		if c.terminal != nil {
			err = resize(c.terminal, r.Signal)
		}
	default:
		err = fmt.Errorf("nobody knows how to %q a container", r.Ask)
	}
	state := c.snapshot()
	return &state, err
}

func (c *kept) snapshot() State {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.state
}

func (k *Keeper) list() []State {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	states := make([]State, 0, len(k.containers))
	for _, c := range k.containers {
		states = append(states, c.snapshot())
	}
	return states
}

func (k *Keeper) forget(id string, c *kept) error {
	if c.snapshot().Running() {
		return errors.New("the container runs")
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.containers, id)
	return nil
}

// joined are the namespaces of a request.
func (k *Keeper) joined(r request, files []*os.File) (j container.Joined, rest []*os.File, err error) {
	if len(r.Namespaces) > len(files) {
		return j, nil, errors.New("namespaces are missing")
	}
	j.Namespaces = map[string]*os.File{}
	for i, kind := range r.Namespaces {
		j.Namespaces[kind] = files[i]
	}
	if r.Processes != "" {
		first, err := k.find(r.Processes)
		if err != nil {
			return j, nil, fmt.Errorf("sharing the processes of %s: %w", r.Processes, err)
		}
		descriptor, err := unix.PidfdOpen(first.snapshot().PID, 0)
		if err != nil {
			return j, nil, fmt.Errorf("sharing the processes of %s: %w", r.Processes, err)
		}
		j.Processes = os.NewFile(uintptr(descriptor), "processes")
	}
	return j, files[len(r.Namespaces):], nil
}

// start starts a container.
func (k *Keeper) start(r request, files []*os.File) (*State, error) {
	joined, _, err := k.joined(r, files)
	if err != nil {
		return nil, err
	}
	defer joined.Processes.Close()
	if _, err := k.find(r.ID); err == nil {
		return nil, fmt.Errorf("there is a container %s already", r.ID)
	}
	c := &kept{spec: *r.Spec, stdinOnce: r.StdinOnce, ended: make(chan struct{})}
	over := make(chan struct{})
	if c.log, err = newLog(r.Log, over); err != nil {
		return nil, err
	}
	streams, err := c.open(r)
	if err != nil {
		c.log.close()
		return nil, err
	}
	pid, ended, err := k.fork(*r.Spec, joined, streams.theirs)
	closeStreams(streams.theirs)
	if err != nil {
		closeAll(streams.ours)
		c.log.close()
		return nil, err
	}
	c.state = State{ID: r.ID, PID: pid, Started: time.Now()}
	k.mutex.Lock()
	k.containers[r.ID] = c
	k.mutex.Unlock()
	go c.follow(ended, over, streams.copies)
	state := c.snapshot()
	return &state, nil
}

// fork starts a program in a container and returns when it has begun.
func (k *Keeper) fork(spec container.Spec, joined container.Joined, streams container.Streams) (int, <-chan unix.WaitStatus, error) {
	var starting *container.Starting
	pid, ended, err := k.reaper.start(func() (process *os.Process, err error) {
		if starting, err = container.Fork(spec, joined, streams); err != nil {
			return nil, err
		}
		return starting.Process, nil
	})
	if err != nil {
		return 0, nil, err
	}
	if err := starting.Await(); err != nil {
		_ = k.reaper.signal(pid, unix.SIGKILL)
		<-ended
		return 0, nil, err
	}
	return pid, ended, nil
}

// follow notes the end of a container. Its log is complete by then: who reads it when the container has ended must find all.
func (c *kept) follow(ended <-chan unix.WaitStatus, over chan<- struct{}, copies *sync.WaitGroup) {
	status := <-ended
	close(over)
	// Its processes are gone with the first, and so are the writers of its streams, unless it shares processes with others.
	complete := make(chan struct{})
	go func() {
		copies.Wait()
		close(complete)
	}()
	const grace = 2 * time.Second
	select {
	case <-complete:
	case <-time.After(grace):
	}
	c.log.close()
	for _, file := range []*os.File{c.input, c.terminal} {
		if file != nil {
			file.Close()
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.state.Ended, c.state.Code, c.state.OutOfMemory = time.Now(), codeOf(status), outOfMemory(c.spec.Cgroup)
	close(c.ended)
}

// codeOf is the exit code as a shell has it.
func codeOf(status unix.WaitStatus) int {
	if status.Signaled() {
		const killed = 128
		return killed + int(status.Signal())
	}
	return status.ExitStatus()
}

// outOfMemory reads the events of a control group (cgroup v2).
func outOfMemory(cgroup string) bool {
	if cgroup == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(cgroup, "memory.events"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(events)) {
		if count, found := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); found && count != "0" {
			return true
		}
	}
	return false
}

// kill ends a container at once: with the first process of a namespace the kernel ends all. Where it shares its namespace,
// those that descend from it are ended.
func (k *Keeper) kill(c *kept) error {
	pid := c.snapshot().PID
	if !c.snapshot().Running() {
		return nil
	}
	for _, child := range descendants(pid) {
		_ = unix.Kill(child, unix.SIGKILL)
	}
	return k.reaper.signal(pid, unix.SIGKILL)
}

// descendants are the processes below one, as far as they have not been left by their parents.
func descendants(ancestor int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if parent, err := parentOf(pid); err == nil {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	below := slices.Clone(children[ancestor])
	for i := 0; i < len(below); i++ {
		below = append(below, children[below[i]]...)
	}
	return below
}

// parentOf reads /proc/PID/stat (proc(5)): the program's name, in parentheses, may hold anything.
func parentOf(pid int) (int, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return 0, fs.ErrInvalid
	}
	return strconv.Atoi(fields[1])
}

// run starts a program in a container, and tells how it ended. If who asked goes, it is killed.
func (k *Keeper) run(connection *net.UnixConn, r request, files []*os.File) error {
	c, err := k.find(r.ID)
	if err != nil {
		return err
	}
	within := c.snapshot()
	if !within.Running() {
		return errors.New("the container does not run")
	}
	processes, err := unix.PidfdOpen(within.PID, 0)
	if err != nil {
		return fmt.Errorf("entering the container: %w", err)
	}
	joined := container.Joined{Processes: os.NewFile(uintptr(processes), "processes")}
	defer joined.Processes.Close()
	spec := *r.Spec
	spec.Enter, spec.Cgroup = true, c.spec.Cgroup
	var streams container.Streams
	for i, target := range []**os.File{&streams.In, &streams.Out, &streams.Err} {
		if r.Streams[i] && len(files) > 0 {
			*target, files = files[0], files[1:]
		}
	}
	pid, ended, err := k.fork(spec, joined, streams)
	if err != nil {
		return err
	}
	closeStreams(streams) // the program has its own; who reads from it must see its end
	started := State{ID: r.ID, PID: pid, Started: time.Now()}
	if err := send(connection, answer{State: &started}); err != nil {
		_ = k.reaper.signal(pid, unix.SIGKILL)
		return nil
	}
	done := make(chan struct{})
	var status unix.WaitStatus
	go func() {
		status = <-ended
		close(done)
	}()
	if !waitFor(connection, done) {
		for _, child := range append(descendants(pid), pid) {
			_ = unix.Kill(child, unix.SIGKILL)
		}
		<-done
		return nil
	}
	started.Ended, started.Code = time.Now(), codeOf(status)
	_ = send(connection, answer{State: &started}) // who asked may have gone
	return nil
}

// waitFor waits for an event, or reports that who asked has gone.
func waitFor(connection *net.UnixConn, event <-chan struct{}) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = connection.Read(make([]byte, 1)) // they say no more
	}()
	select {
	case <-event:
		return true
	case <-ctx.Done():
		return false
	}
}

// attach passes on what a container reads and writes, until it ends or who asked goes.
func (k *Keeper) attach(connection *net.UnixConn, r request) error {
	c, err := k.find(r.ID)
	if err != nil {
		return err
	}
	var writing sync.Mutex
	h := &hearer{write: func(kind frame, content []byte) error {
		writing.Lock()
		defer writing.Unlock()
		return writeFrame(connection, kind, content)
	}}
	if err := send(connection, answer{}); err != nil {
		return err
	}
	c.log.hear(h)
	defer c.log.ignore(h)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			kind, content, err := readFrame(connection)
			if err != nil {
				return
			}
			c.feed(kind, content)
		}
	}()
	select {
	case <-c.ended:
	case <-gone:
	}
	return nil
}

// feed gives a container what it reads.
func (c *kept) feed(kind frame, content []byte) {
	switch {
	case kind == frameIn && c.terminal != nil:
		_, _ = c.terminal.Write(content) // it may have ended
	case kind == frameIn && c.input != nil:
		_, _ = c.input.Write(content)
	case kind == frameInEnd && c.input != nil && c.stdinOnce:
		c.input.Close()
	}
}
