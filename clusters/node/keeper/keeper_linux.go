// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/relay"
)

// Keeper keeps containers. All methods are safe for concurrent use.
type Keeper struct {
	reaper *reaper

	mutex      sync.Mutex
	containers map[string]*kept
	// starting has the names of the containers that are being started.
	starting map[string]bool
}

// kept is a container.
type kept struct {
	spec      container.Spec
	program   program
	log       *containerLog
	input     *os.File // data written to it is the container's input. nil: there is no input
	terminal  *os.File
	stdinOnce bool

	mutex sync.Mutex
	state State
	ended chan struct{}
}

// New returns a keeper without containers. This process must be the first of its PID namespace, and no other code in it
// may wait for children (wait(2)). Use Supervise to start programs that are not containers.
func New() *Keeper {
	return &Keeper{reaper: newReaper(), containers: map[string]*kept{}, starting: map[string]bool{}}
}

// Serve answers requests until the listener is closed.
func (k *Keeper) Serve(listener *net.UnixListener) {
	relay.Each(listener.AcceptUnix, func(connection *net.UnixConn) { go k.serve(connection) })
}

func (k *Keeper) serve(connection *net.UnixConn) {
	defer connection.Close()
	var r request
	files, err := read(connection, &r)
	if err != nil {
		return // the client has disconnected
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
		a.State, err = k.handleContainer(connection, r)
	}
	var notStarted *container.StartError
	if err != nil {
		a.Error, a.Missing, a.NotStarted = err.Error(), errors.Is(err, ErrMissing), errors.As(err, &notStarted)
	}
	_ = send(connection, a) // the client may have disconnected
}

func (k *Keeper) find(id string) (*kept, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if c := k.containers[id]; c != nil {
		return c, nil
	}
	return nil, ErrMissing
}

// handleContainer answers a request that names an existing container.
func (k *Keeper) handleContainer(connection *net.UnixConn, r request) (*State, error) {
	c, err := k.find(r.ID)
	if err != nil {
		return nil, err
	}
	switch r.Ask {
	case askSignal:
		err = signal(c.program.process, unix.Signal(r.Signal))
	case askKill:
		err = signal(c.program.process, unix.SIGKILL) // when it ends, the kernel ends all others
	case askWait:
		if !waitFor(connection, c.ended) {
			return nil, errors.New("the client has disconnected")
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
		err = fmt.Errorf("unknown request %q", r.Ask)
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
		return errors.New("the container is still running")
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.containers, id)
	return nil
}

// joined returns the namespaces that a request names, and the remaining files.
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
		if j.Processes, err = pidfd(first.program.process); err != nil {
			return j, nil, fmt.Errorf("sharing the processes of %s: %w", r.Processes, err)
		}
	}
	return j, files[len(r.Namespaces):], nil
}

// reserve reserves a name for a container that is being started. A client that repeats a request because the answer is
// late must not start a second container.
func (k *Keeper) reserve(id string) (release func(), err error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.containers[id] != nil || k.starting[id] {
		return nil, fmt.Errorf("container %s already exists", id)
	}
	k.starting[id] = true
	return func() {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		delete(k.starting, id)
	}, nil
}

// start starts a container.
func (k *Keeper) start(r request, files []*os.File) (*State, error) {
	release, err := k.reserve(r.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	joined, _, err := k.joined(r, files)
	if err != nil {
		return nil, err
	}
	defer joined.Processes.Close()
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
	c.program, err = k.fork(*r.Spec, joined, streams.theirs)
	closeStreams(streams.theirs)
	if err != nil {
		closeAll(streams.ours)
		c.log.close()
		return nil, err
	}
	c.state = State{ID: r.ID, PID: c.program.process.Pid, Started: time.Now()}
	k.mutex.Lock()
	k.containers[r.ID] = c
	k.mutex.Unlock()
	go c.follow(over, streams.copies)
	state := c.snapshot()
	return &state, nil
}

// program is a program in a container.
type program struct {
	process *os.Process
	ended   <-chan unix.WaitStatus
	// members, if not nil, finds the processes of a container that does not end with its first one.
	members *members
}

// fork starts a program in a container and returns when it has started.
func (k *Keeper) fork(spec container.Spec, joined container.Joined, streams container.Streams) (p program, err error) {
	var starting *container.Starting
	p.process, p.ended, err = k.reaper.start(func() (process *os.Process, err error) {
		if starting, err = container.Fork(spec, joined, streams); err != nil {
			return nil, err
		}
		return starting.Process, nil
	})
	if err != nil {
		return p, err
	}
	if !spec.Enter && (spec.NodeProcesses || joined.Processes != nil) {
		p.members, err = membersOf(p.process.Pid, spec.Cgroup) // the process waits for Await, so it still exists
	}
	if err = errors.Join(err, starting.Await()); err != nil {
		_ = signal(p.process, unix.SIGKILL)
		<-p.ended
		p.members.end()
		return p, err
	}
	return p, nil
}

// follow records the end of a container. The log is complete by then, so that a client that reads it after the end
// misses nothing.
func (c *kept) follow(over chan<- struct{}, copies *sync.WaitGroup) {
	status := <-c.program.ended
	c.program.members.end()
	close(over)
	// All its processes have ended, and with them the writers of its streams, unless the kernel can't end one.
	complete := make(chan struct{})
	go func() {
		copies.Wait()
		close(complete)
	}()
	const grace = 10 * time.Second // on a busy machine, reading the remaining output takes long
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

// codeOf returns the exit code as a shell reports it.
func codeOf(status unix.WaitStatus) int {
	if status.Signaled() {
		const killed = 128
		return killed + int(status.Signal())
	}
	return status.ExitStatus()
}

// outOfMemory reports whether the events of a control group (cgroup v2) include an OOM kill.
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

// run starts a program in a container, and reports how it ended. It kills the program if the client disconnects.
func (k *Keeper) run(connection *net.UnixConn, r request, files []*os.File) error {
	c, err := k.find(r.ID)
	if err != nil {
		return err
	}
	if !c.snapshot().Running() {
		return errors.New("the container is not running")
	}
	processes, err := pidfd(c.program.process)
	if err != nil {
		return fmt.Errorf("entering the container: %w", err)
	}
	defer processes.Close()
	joined := container.Joined{Processes: processes}
	spec := *r.Spec
	spec.Enter, spec.Cgroup = true, c.spec.Cgroup
	var streams container.Streams
	for i, target := range []**os.File{&streams.In, &streams.Out, &streams.Err} {
		if r.Streams[i] && len(files) > 0 {
			*target, files = files[0], files[1:]
		}
	}
	p, err := k.fork(spec, joined, streams)
	if err != nil {
		return err
	}
	closeStreams(streams) // the program has its own, and readers must see its end
	started := State{ID: r.ID, PID: p.process.Pid, Started: time.Now()}
	if err := send(connection, answer{State: &started}); err != nil {
		killTree(p.process)
		return nil
	}
	done := make(chan struct{})
	var status unix.WaitStatus
	go func() {
		status = <-p.ended
		close(done)
	}()
	if !waitFor(connection, done) {
		killTree(p.process)
		<-done
		return nil
	}
	started.Ended, started.Code = time.Now(), codeOf(status)
	_ = send(connection, answer{State: &started}) // the client may have disconnected
	return nil
}

// waitFor waits for an event. It returns false if the client disconnects first.
func waitFor(connection *net.UnixConn, event <-chan struct{}) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = connection.Read(make([]byte, 1)) // the client sends nothing more
	}()
	select {
	case <-event:
		return true
	case <-ctx.Done():
		return false
	}
}

// attach connects the client to the streams of a container, until the container ends or the client disconnects.
func (k *Keeper) attach(connection *net.UnixConn, r request) error {
	c, err := k.find(r.ID)
	if err != nil {
		return err
	}
	var writing sync.Mutex
	s := &subscriber{write: func(kind frame, content []byte) error {
		writing.Lock()
		defer writing.Unlock()
		return writeFrame(connection, kind, content)
	}}
	if err := send(connection, answer{}); err != nil {
		return err
	}
	c.log.subscribe(s)
	defer c.log.unsubscribe(s)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			kind, content, err := readFrame(connection)
			if err != nil {
				return
			}
			c.writeInput(kind, content)
		}
	}()
	select {
	case <-c.ended:
	case <-gone:
	}
	return nil
}

// writeInput passes a frame to a container's input.
func (c *kept) writeInput(kind frame, content []byte) {
	switch {
	case kind == frameIn && c.terminal != nil:
		_, _ = c.terminal.Write(content) // the container may have ended
	case kind == frameIn && c.input != nil:
		_, _ = c.input.Write(content)
	case kind == frameInEnd && c.input != nil && c.stdinOnce:
		c.input.Close()
	}
}
