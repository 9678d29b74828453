// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"lva.io/operators/clusters/thread"
)

// Spec describes a program to start.
type Spec struct {
	// Name is the program's name in messages. Default: the base name of Path.
	Name string
	Path string
	Args []string
	// Env is the whole environment except for the scope's marker. Default: the current one.
	Env []string
	// Dir is its working folder. Default: the scope's.
	Dir    string
	Stdout io.Writer
	Stderr io.Writer
	// Files are passed to it as descriptors 3 and up.
	Files []*os.File
	// Background lowers its priority when other programs want the processor.
	Background bool
	// Contained ends all processes that the program started with it, whatever they do to escape: they may leave its group
	// and session, clear their environment, or fork while they are killed. It is for programs that we don't trust. They
	// don't survive Release. It works on Linux. Elsewhere only the process's group ends with it.
	Contained bool
	// Walls restrict a contained program. Default: it may do what its user may.
	Walls *Walls
}

const (
	// backgroundNice is added to our own niceness for processes in the background, so that they yield to all others.
	backgroundNice = 10
	greatestNice   = 19
)

// backgroundNiceness is the niceness of processes in the background. We may be nice ourselves, and then they must be
// nicer: only root may lower a niceness.
func backgroundNiceness() int { return min(niceness()+backgroundNice, greatestNice) }

// Process is a program started in a scope, in a process group of its own.
type Process struct {
	Name string

	scope       *Scope
	cmd         *exec.Cmd
	supervision *supervision // of a contained program
	done        chan struct{}
	err         error
	// late is closed when the process has not ended in time after it was killed, and gone when it has really ended.
	late, gone chan struct{}
	killed     sync.Once

	mutex sync.Mutex
	// forgotten reports that the number of its group may have been reused.
	forgotten bool
}

// ExitError is the error of a program that ran, but did not end with exit code 0. An *exec.ExitError is one.
type ExitError interface {
	error
	// ExitCode is -1 if a signal ended the program.
	ExitCode() int
}

// exitStatus is the ExitError of a contained program, with the messages of exec.ExitError.
type exitStatus syscall.WaitStatus

// statusError returns nil for exit code 0.
func statusError(status uint32) error {
	if status == 0 {
		return nil
	}
	return exitStatus(status)
}

func (s exitStatus) ExitCode() int { return syscall.WaitStatus(s).ExitStatus() }

func (s exitStatus) Error() string {
	status := syscall.WaitStatus(s)
	switch {
	case !status.Signaled():
		return fmt.Sprintf("exit status %d", status.ExitStatus())
	case status.CoreDump():
		return fmt.Sprintf("signal: %s (core dumped)", status.Signal())
	default:
		return fmt.Sprintf("signal: %s", status.Signal())
	}
}

// Start starts a program, which ends with the scope at the latest.
func (s *Scope) Start(spec Spec) (*Process, error) {
	if spec.Name == "" {
		spec.Name = filepath.Base(spec.Path)
	}
	if spec.Env == nil {
		spec.Env = os.Environ()
	}
	if spec.Dir == "" {
		spec.Dir = s.Dir
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return nil, fmt.Errorf("starting %s: its run has ended", spec.Name)
	}
	p := &Process{
		Name: spec.Name, scope: s, done: make(chan struct{}), late: make(chan struct{}), gone: make(chan struct{}),
	}
	var err error
	if spec.Contained {
		if p.cmd, p.supervision, err = s.startContained(spec); err == nil {
			s.containment = weakest(s.containment, p.supervision.containment())
			if spec.Walls != nil {
				s.noteWalls(p.supervision.walls())
			}
		}
	} else {
		p.cmd, err = s.startFree(spec)
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w%s", spec.Name, err, explainStartError(spec.Path, err))
	}
	if p.supervision == nil || p.supervision.endsByKernel() {
		s.notifyGuard("group", p.PID())
	}
	s.processes[p] = struct{}{}
	go p.wait()
	return p, nil
}

func (s *Scope) startFree(spec Spec) (*exec.Cmd, error) {
	cmd := s.command(spec)
	if err := thread.Run(cmd.Start); err != nil { // the kernel may signal it at the end of the thread
		return nil, err
	}
	if spec.Background {
		// Its only effect is a slower program.
		_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, backgroundNiceness())
	}
	return cmd, nil
}

func (s *Scope) command(spec Spec) *exec.Cmd {
	// A grandchild that has left the group and keeps the output open must not make us wait for it. A contained program has
	// no such grandchild, so we read its output to the end, which takes long on a busy machine.
	delay := time.Second
	if spec.Contained {
		delay = 10 * time.Second
	}
	return &exec.Cmd{
		Path: spec.Path, Args: append([]string{spec.Path}, spec.Args...), Dir: spec.Dir,
		Env: append(slices.Clip(spec.Env), markerVariable+"="+s.ID), Stdout: spec.Stdout, Stderr: spec.Stderr,
		ExtraFiles: spec.Files, SysProcAttr: groupAttributes(s.options.Detachable),
		WaitDelay: cmp.Or(s.options.waitDelay, delay),
	}
}

func (p *Process) wait() {
	var ending error
	go func() {
		ending = await(p.cmd, p.forget)
		if errors.Is(ending, exec.ErrWaitDelay) {
			ending = nil // It ended well.
		}
		if p.supervision != nil {
			ending = p.supervision.ending(ending)
		}
		close(p.gone)
	}()
	select {
	case <-p.gone:
	case <-p.late:
	}
	p.scope.mutex.Lock()
	delete(p.scope.processes, p)
	if p.hasEnded() {
		p.err = ending
	} else {
		p.err = p.unkillableError()
		p.scope.stuck = append(p.scope.stuck, p)
	}
	p.scope.mutex.Unlock()
	close(p.done)
}

func (p *Process) hasEnded() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// patience is how long we wait for a process that was killed. On a busy machine, dying takes long.
const patience = time.Minute

func (p *Process) unkillableError() error {
	what := fmt.Sprintf("process %d", p.PID())
	if p.supervision != nil {
		what = fmt.Sprintf("its supervisor, process %d, still ends what is below it: %s", p.PID(), namesBelow(p.PID()))
	}
	return fmt.Errorf("%s has not ended %s after it was killed (%s): the kernel can't end a process that waits for a "+
		"disk or a network file system; if it stays for long, restart the machine",
		p.Name, cmp.Or(p.scope.options.patience, patience), what)
}

// forget removes the number of the group, which is empty, from our records and the guard's.
func (p *Process) forget() {
	p.mutex.Lock()
	p.forgotten = true
	p.mutex.Unlock()
	p.scope.mutex.Lock()
	defer p.scope.mutex.Unlock()
	if !p.scope.closed {
		p.scope.notifyGuard("forget", p.PID())
	}
}

// PID returns the number of the process, which is also that of its group. For a contained program, it is the
// supervisor's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and no process writes to its output any more. If the process has not ended
// a minute after it was killed, Done is closed then, Err reports it, and the attempts to end the process continue.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended: nil for exit code 0, an ExitError for another one or a signal. Any other error
// means that this is not known, or that the process could not be ended. Call it only after Done.
func (p *Process) Err() error { return p.err }

// Wait waits until the process has ended and returns Err. If the context ends first, the process is killed, and the
// error is the context's cause.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.Kill()
		return context.Cause(ctx)
	}
}

// Kill kills the process's group, and all processes that a contained program has started. It waits until the process is
// Done, for a minute at most.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal sends a signal to the process's group unless the process has ended: the number may be another's by then.
func (p *Process) signal(signal syscall.Signal) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.forgotten {
		return
	}
	if signal == syscall.SIGKILL {
		p.killed.Do(func() { time.AfterFunc(cmp.Or(p.scope.options.patience, patience), func() { close(p.late) }) })
	}
	switch {
	case p.supervision == nil:
		_ = syscall.Kill(-p.PID(), signal)
	case signal == syscall.SIGKILL:
		p.supervision.kill(p.cmd.Process)
	default:
		p.supervision.signal(p.cmd.Process, signal)
	}
}

// Stop asks the process's group to end (SIGTERM), and kills it if it has not ended within grace.
func (p *Process) Stop(grace time.Duration) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}
