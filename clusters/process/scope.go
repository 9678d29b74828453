// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// markerVariable names the environment variable by which the processes of a scope are recognised.
const markerVariable = "OPERATOR_LABS_SCOPE"

// Options says how a scope behaves. The zero value is a temporary scope: its folder is new and goes with it.
type Options struct {
	// Dir is the folder of a scope that keeps it, such as the playground's. It must exist. Default: a new folder
	// below Root, removed when the scope ends.
	Dir string
	// Detachable makes processes that survive their parent once Release was called.
	Detachable bool
}

// Scope is a folder and the processes that were started in it. All methods are safe for concurrent use.
type Scope struct {
	// ID is the value of the marker that the scope's processes carry.
	ID string
	// Dir is the scope's folder. Only its user can read it.
	Dir string

	options Options
	guard   *exec.Cmd
	pipe    *os.File // its end, written or not, tells the guard of our own
	lock    *os.File

	mutex     sync.Mutex
	processes map[*Process]struct{}
	closed    bool
}

// Root is the folder below which temporary scopes have theirs. It belongs to the current user alone.
func Root() (string, error) {
	root := filepath.Join(os.TempDir(), fmt.Sprintf("operator-labs-%d", os.Getuid()))
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("making the folder of running clusters: %w", err)
	}
	// In a shared temporary folder somebody else could have made it first, to read our keys.
	info, err := os.Lstat(root)
	if err != nil {
		return "", fmt.Errorf("looking at the folder of running clusters: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm() != 0o700 {
		return "", fmt.Errorf("%s is not a folder that only you can enter: remove it, or set TMPDIR to a folder of yours", root)
	}
	return root, nil
}

// NewScope sweeps what earlier scopes may have left, then makes a folder and a guard.
func NewScope(options Options) (*Scope, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	if err := sweep(root); err != nil {
		return nil, err
	}
	var random [6]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	s := &Scope{ID: "run-" + hex.EncodeToString(random[:]), options: options, processes: map[*Process]struct{}{}}
	s.Dir = options.Dir
	if s.Dir == "" {
		s.Dir = filepath.Join(root, s.ID)
	}
	// The guard comes first: whatever ends us while the folder is made, somebody knows of it.
	if err := s.startGuard(); err != nil {
		return nil, err
	}
	if options.Dir == "" {
		if s.lock, err = makeLocked(s.Dir); err != nil {
			s.dismissGuard()
			return nil, errors.Join(err, s.removeDir(), removeAll(unfinished(s.Dir)))
		}
	}
	return s, nil
}

// makeLocked makes a folder that never exists without its lock: a sweep at the wrong moment would take it for abandoned.
func makeLocked(dir string) (*os.File, error) {
	hidden := unfinished(dir)
	if err := os.Mkdir(hidden, 0o700); err != nil {
		return nil, fmt.Errorf("making a run folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(hidden, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making a run folder's lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("locking a run folder: %w", err)
	}
	if err := os.Rename(hidden, dir); err != nil {
		return nil, fmt.Errorf("making a run folder: %w", err)
	}
	return lock, nil
}

// unfinished is the name of a run folder while it is being made.
func unfinished(dir string) string {
	return filepath.Join(filepath.Dir(dir), ".new-"+filepath.Base(dir))
}

// Spec is a program to start.
type Spec struct {
	// Name is what messages call it. Default: the base name of Path.
	Name string
	Path string
	Args []string
	// Env is the whole environment but for the scope's marker. Default: the current one.
	Env []string
	// Dir is its working folder. Default: the scope's.
	Dir    string
	Stdout io.Writer
	Stderr io.Writer
	// Files are given to it as descriptors 3 and up.
	Files []*os.File
	// Background makes it give way to others when the processor is wanted.
	Background bool
}

// backgroundNice is the niceness of processes in the background: they get what is left.
const backgroundNice = 10

// Process is a program started in a scope, in a process group of its own.
type Process struct {
	Name string

	scope *Scope
	cmd   *exec.Cmd
	done  chan struct{}
	err   error
}

// Start starts a program. It ends at the latest with the scope.
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
	cmd := &exec.Cmd{
		Path: spec.Path, Args: append([]string{spec.Path}, spec.Args...), Dir: spec.Dir,
		Env: append(slices.Clip(spec.Env), markerVariable+"="+s.ID), Stdout: spec.Stdout, Stderr: spec.Stderr,
		ExtraFiles: spec.Files, SysProcAttr: groupAttributes(s.options.Detachable),
		// A grandchild that keeps the output open must not keep us waiting for it.
		WaitDelay: time.Second,
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return nil, fmt.Errorf("starting %s: its run has ended", spec.Name)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	s.tellGuard("group", cmd.Process.Pid)
	if spec.Background {
		_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, backgroundNice) // it only would be slower
	}
	p := &Process{Name: spec.Name, scope: s, cmd: cmd, done: make(chan struct{})}
	s.processes[p] = struct{}{}
	go p.wait()
	return p, nil
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	if errors.Is(p.err, exec.ErrWaitDelay) {
		p.err = nil // It ended well; what it left in its group, which keeps its output open, ends below.
	}
	// What it left in its group ends with it; after that the number may belong to somebody else.
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	p.scope.mutex.Lock()
	delete(p.scope.processes, p)
	if !p.scope.closed {
		p.scope.tellGuard("forget", p.PID())
	}
	p.scope.mutex.Unlock()
	close(p.done)
}

// PID is the process's number, and that of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended: nil for exit code 0. Call it only after Done.
func (p *Process) Err() error { return p.err }

// Wait waits until the process has ended and says how. When the context ends first, the process is killed, and the error
// is the context's cause.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.Kill()
		return context.Cause(ctx)
	}
}

// Kill ends the process's group at once and waits for it.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal sends a signal to the process's group unless the process has ended: the number may be another's by then.
func (p *Process) signal(signal syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.PID(), signal)
	}
}

// Stop asks the process's group to end (SIGTERM), and kills it if it has not within grace.
func (p *Process) Stop(grace time.Duration) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Close ends all processes of the scope at once, those that left their group too, and removes a temporary folder.
func (s *Scope) Close() error {
	s.mutex.Lock()
	if s.closed {
		s.mutex.Unlock()
		return nil
	}
	s.closed = true
	var ending []*Process
	for p := range s.processes {
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
		ending = append(ending, p)
	}
	s.mutex.Unlock()
	for _, p := range ending {
		<-p.done
	}
	killMarked(s.ID)
	err := s.removeDir()
	s.dismissGuard()
	return err
}

// Adopt makes all programs that this process starts from here on the scope's, whoever starts them: a library does not know
// Start. They end with the scope, and by the guard if we are killed. abandon ends the adoption, for what starts later.
func (s *Scope) Adopt() (abandon func(), err error) {
	if err := os.Setenv(markerVariable, s.ID); err != nil {
		return nil, fmt.Errorf("marking the programs of a run: %w", err)
	}
	return func() { _ = os.Unsetenv(markerVariable) }, nil
}

// Release lets the processes of a detachable scope live on after this one ends. The scope can't be used afterwards.
func (s *Scope) Release() {
	s.mutex.Lock()
	s.closed = true
	s.mutex.Unlock()
	s.dismissGuard()
}

func (s *Scope) removeDir() error {
	if s.options.Dir != "" {
		return nil
	}
	if s.lock != nil {
		defer s.lock.Close()
	}
	return removeAll(s.Dir)
}

// removeAll removes a folder in which a dying process may still be making files.
func removeAll(dir string) error {
	var err error
	for range 3 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	return fmt.Errorf("removing the run folder: %w", err)
}

// KillMarked ends all processes of the scope with this ID, wherever they were started. It is for scopes that were
// released. On systems without /proc it finds nothing.
func KillMarked(id string) { killMarked(id) }

// marked reports whether an environment, as /proc has it, carries the marker of the scope.
func marked(environment []byte, id string) bool {
	want := markerVariable + "=" + id
	for entry := range strings.SplitSeq(string(environment), "\x00") {
		if entry == want {
			return true
		}
	}
	return false
}
