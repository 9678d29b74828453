// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lva.io/operators/clusters/thread"
)

// markerVariable names the environment variable by which the processes of a scope are recognised.
const markerVariable = "OPERATOR_LABS_SCOPE"

// Options configure a scope. The zero value means a temporary scope: its folder is new and is removed with it.
type Options struct {
	// Dir is the folder of a scope that keeps its folder, such as the playground's. It must exist. Default: a new folder
	// below Root, removed when the scope ends.
	Dir string
	// Detachable lets processes survive their parent after Release was called.
	Detachable bool

	withoutNamespaces bool          // for tests of how programs are contained without them
	waitDelay         time.Duration // for tests of what does not depend on it
	patience          time.Duration // for tests of processes that can't be ended
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
	// stuck are the processes that had not ended when we stopped waiting for them.
	stuck       []*Process
	closed      bool
	containment Containment
	// built are the walls that all walled programs had.
	built  []Wall
	walled bool
}

// Containment is how we know the processes that a contained program has started.
type Containment string

// The containments, strongest first.
const (
	// Namespaces: the kernel kills all processes of a PID namespace when its first one ends.
	Namespaces Containment = "namespaces"
	// Supervised: a supervisor adopts all orphans below it, finds all processes, and kills them.
	Supervised Containment = "supervisor"
	// Grouped: only the processes that stay in the program's process group are known.
	Grouped Containment = "group"
)

// Containment returns the weakest containment of all contained programs that were started in the scope. It is empty if
// none was.
func (s *Scope) Containment() Containment {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.containment
}

// weakest is the weaker one of two containments.
func weakest(a, b Containment) Containment {
	order := []Containment{"", Namespaces, Supervised, Grouped}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// Root returns the folder below which temporary scopes have theirs. It belongs to the current user alone.
func Root() (string, error) {
	temporary := os.TempDir()
	if !filepath.IsAbs(temporary) {
		return "", fmt.Errorf("TMPDIR is %q, which is no absolute path: set it to the path of a folder, beginning with a slash", temporary)
	}
	root := filepath.Join(temporary, fmt.Sprintf("operator-labs-%d", os.Getuid()))
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("no folder can be made in %s, which is for temporary files (%w): "+
			"set TMPDIR to a folder that exists and that you may write to",
			temporary, errors.Unwrap(err))
	}
	// In a shared temporary folder somebody else could have made it first, to read our keys.
	info, err := os.Lstat(root)
	if err != nil {
		return "", fmt.Errorf("looking at the folder for runs: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s is not a folder of yours, so others could read what is in it: "+
			"remove it, or set TMPDIR to a folder of yours", root)
	}
	// A submission runs as the same user, and may have let others in.
	if info.Mode().Perm() != 0o700 {
		if err := os.Chmod(root, 0o700); err != nil {
			return "", fmt.Errorf("keeping others out of the folder for runs: %w", err)
		}
	}
	return root, nil
}

// NewScope removes what earlier scopes may have left, and then creates a folder and starts a guard.
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
	s := &Scope{ID: "scope-" + hex.EncodeToString(random[:]), options: options, processes: map[*Process]struct{}{}}
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

// makeLocked makes a folder that its owner holds locked (flock(2)) as long as it lives. The folder never exists without
// its lock, since a sweep at the wrong moment would take it for abandoned.
func makeLocked(dir string) (*os.File, error) {
	hidden := unfinished(dir)
	if err := os.Mkdir(hidden, 0o700); err != nil {
		return nil, fmt.Errorf("making a run folder: %w", err)
	}
	lock, err := openFolder(hidden)
	if err != nil {
		return nil, fmt.Errorf("locking a run folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking a run folder: %w", err), lock.Close())
	}
	if err := os.Rename(hidden, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("making a run folder: %w", err), lock.Close())
	}
	return lock, nil
}

// unfinished is the name of a run folder while it is being made.
func unfinished(dir string) string {
	return filepath.Join(filepath.Dir(dir), ".new-"+filepath.Base(dir))
}

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
	// Contained ends all processes that it started with it, whatever they do to escape: they may leave its group and
	// session, clear their environment, or fork while they are killed. It is for programs that we don't trust. They don't
	// survive Release. It works on Linux. Elsewhere only the process's group ends with it.
	Contained bool
	// Walls restrict a contained program. Default: it may do what its user may.
	Walls *Walls
}

const (
	// backgroundNice is added to our own niceness for processes in the background: they get what is left.
	backgroundNice = 10
	greatestNice   = 19
)

// niceInBackground is the niceness of processes in the background. We may be nice ourselves, and then they must be
// nicer: nobody but root may lower a niceness.
func niceInBackground() int { return min(niceness()+backgroundNice, greatestNice) }

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

// exitStatus is the ExitError of a contained program, in the words of exec.ExitError.
type exitStatus syscall.WaitStatus

// statusError is nil for exit code 0.
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
		return nil, fmt.Errorf("starting %s: %w%s", spec.Name, err, whyNot(spec.Path, err))
	}
	if p.supervision == nil || p.supervision.byKernel() {
		s.tellGuard("group", p.PID())
	}
	s.processes[p] = struct{}{}
	go p.wait()
	return p, nil
}

func (s *Scope) startFree(spec Spec) (*exec.Cmd, error) {
	cmd := s.command(spec)
	if err := thread.Lasting(cmd.Start); err != nil { // it may be told of the end of the thread
		return nil, err
	}
	if spec.Background {
		_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, niceInBackground()) // it only would be slower
	}
	return cmd, nil
}

func (s *Scope) command(spec Spec) *exec.Cmd {
	// A grandchild that has left the group and keeps the output open must not keep us waiting for it. A contained program
	// has no such grandchild, so we read its output to the end, which takes long on a busy machine.
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
		p.err = p.stuckError()
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

func (p *Process) stuckError() error {
	what := fmt.Sprintf("process %d", p.PID())
	if p.supervision != nil {
		what = fmt.Sprintf("its supervisor, process %d, still ends what is below it: %s", p.PID(), namesBelow(p.PID()))
	}
	return fmt.Errorf("%s has not ended %s after it was killed (%s): the kernel can't end a process that waits for a "+
		"disk or a network file system; if it stays for long, restart the machine",
		p.Name, cmp.Or(p.scope.options.patience, patience), what)
}

// forget makes us and the guard forget the number of the group, which is empty.
func (p *Process) forget() {
	p.mutex.Lock()
	p.forgotten = true
	p.mutex.Unlock()
	p.scope.mutex.Lock()
	defer p.scope.mutex.Unlock()
	if !p.scope.closed {
		p.scope.tellGuard("forget", p.PID())
	}
}

// PID returns the number of the process, which is also that of its group. For a contained program, it is the
// supervisor's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and no process writes to its output any more. If the process has not ended
// a minute after it was killed, Done is closed then, Err says so, and the attempts to end it continue.
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

// Close kills all processes of the scope, including those that left their group, and removes a temporary folder. It
// returns an error for processes that have not ended a minute after they were killed.
func (s *Scope) Close() error {
	s.mutex.Lock()
	if s.closed {
		s.mutex.Unlock()
		return nil
	}
	s.closed = true
	var ending []*Process
	for p := range s.processes {
		p.signal(syscall.SIGKILL)
		ending = append(ending, p)
	}
	s.mutex.Unlock()
	for _, p := range ending {
		<-p.done
	}
	killMarked(s.ID)
	err := s.removeDir()
	s.dismissGuard()
	// What still lives may be why the folder stays. It is the more important error.
	return cmp.Or(s.stuckErrors(), err)
}

// stuckErrors are those of the processes that still have not ended.
func (s *Scope) stuckErrors() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var problems []error
	for _, p := range s.stuck {
		if !p.hasEnded() {
			problems = append(problems, p.err)
		}
	}
	return errors.Join(problems...)
}

// Adopt adds all programs to the scope that this process starts from now on, even those that are not started by Start
// but by a library. They end with the scope, and the guard kills them if we are killed. abandon ends the adoption for
// later programs.
func (s *Scope) Adopt() (abandon func(), err error) {
	if err := os.Setenv(markerVariable, s.ID); err != nil {
		return nil, fmt.Errorf("marking the programs of a run: %w", err)
	}
	return func() { _ = os.Unsetenv(markerVariable) }, nil
}

// Release lets the processes of a detachable scope continue after this one ends. The scope can't be used afterwards.
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

// KillGroup kills the group of the process that has a number, if the process belongs to the scope with this ID. The
// number may have been reused.
func KillGroup(number int, id string) {
	g, there := openGroup(number) // before we look whose it is
	if !there {
		return
	}
	defer g.Close()
	if Belongs(number, id) {
		g.SignalGroup(syscall.SIGKILL)
	}
}

// KillMarked kills all processes of the scope with this ID, wherever they were started. It is for scopes that were
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
