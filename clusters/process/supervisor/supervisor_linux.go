// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"errors"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"lva.io/operators/clusters/process/pid"
)

// From linux/prctl.h, as in golang.org/x/sys/unix, which would make us wait for reflection.
const (
	prSetChildSubreaper  = 36
	prCapAmbient         = 47
	prCapAmbientClearAll = 4
)

func control(option, argument uintptr) error {
	if _, _, err := syscall.RawSyscall6(syscall.SYS_PRCTL, option, argument, 0, 0, 0, 0); err != 0 {
		return err
	}
	return nil
}

func init() {
	mode, program, ok := called(os.Args)
	if !ok {
		return
	}
	if mode == launcher || mode == openLauncher {
		launch(mode, program)
		os.Exit(1)
	}
	s := &supervisor{mode: mode, owner: program.Files, ending: make(chan struct{})}
	s.run(program)
	os.Exit(0)
}

type supervisor struct {
	mode    Mode
	owner   int // the descriptor of the connection to it
	program pid.Handle
	// reapLock is held while the program is waited for. After that the program is reaped, and its number, and that of its
	// group, may be another's.
	reapLock sync.Mutex
	reaped   bool
	// confined reports that a signal to all processes reaches only those below us, if it comes from the thread on which we
	// began.
	confined bool
	// ending is closed when a reaper has to end the processes below it.
	ending chan struct{}
	ended  sync.Once
}

// run returns if the program can't be started. Otherwise the process ends when no process is left below it. run does
// not leave the thread on which it was called. That is the first thread of the process, which lasts as long as the
// process does. So does the program's parent death signal, which belongs to a thread.
func (s *supervisor) run(program Program) {
	// This is a handler, and not SIG_IGN, which the program would inherit. The program ignores the signals that were
	// ignored when we began.
	signals := make(chan os.Signal, 16)
	for number := syscall.Signal(1); number <= 64; number++ {
		if !signal.Ignored(number) {
			signal.Notify(signals, number)
		}
	}
	descriptor := -1
	started, built, err := s.start(program, &descriptor)
	if err != nil {
		message := Message{Failed, number(err)}
		if launchers, ok := errors.AsType[failure](err); ok {
			message = Message(launchers)
		}
		s.send(message, nil)
		return
	}
	s.program, _ = pid.Open(started) // before we wait for it, after which its number may be another's
	var rights []byte
	if descriptor >= 0 {
		rights = syscall.UnixRights(descriptor)
	}
	s.send(Message{Started, uint32(built)}, rights)
	go s.handleSignals(signals)
	go s.followOwner()
	go s.reap(started)
	<-s.ending
	s.killDescendants()
}

// reap waits for all children that end, and ends the process when no child is left. Then no descendant is left either,
// because an orphan would be our child.
func (s *supervisor) reap(program int) {
	for {
		switch ended, err := nextEnded(); {
		case errors.Is(err, syscall.ECHILD):
			os.Exit(0)
		case err != nil: // it was interrupted
			<-time.After(shortestPause)
		case ended == program:
			s.finishProgram(program)
			program = 0 // the number may be that of an orphan from now on
			s.end()
		default:
			_, _ = syscall.Wait4(ended, nil, syscall.WALL, nil)
		}
	}
}

// finishProgram ends the processes that the program left in its group, while no other group can have its number, and
// reports to the owner how the program ended.
func (s *supervisor) finishProgram(number int) {
	s.reapLock.Lock()
	defer s.reapLock.Unlock()
	s.program.SignalGroup(syscall.SIGKILL)
	var status syscall.WaitStatus
	_, _ = syscall.Wait4(number, &status, syscall.WALL, nil)
	s.reaped = true
	s.send(Message{Ended, uint32(status)}, nil)
}

// signalProgram signals the program's group, unless its number may be another's by now.
func (s *supervisor) signalProgram(signal syscall.Signal) {
	s.reapLock.Lock()
	defer s.reapLock.Unlock()
	if !s.reaped {
		s.program.SignalGroup(signal)
	}
}

// nextEnded waits until a child has ended, and does not reap it, so that it keeps its number.
func nextEnded() (child int, err error) {
	const all = 0 // P_ALL of waitid(2)
	var ended struct {
		_      [3]int32
		fields struct {
			_     [0]uintptr // the kernel aligns the rest of a siginfo_t like a pointer
			child int32
			_     [28]int32
		}
	}
	_, _, failed := syscall.Syscall6(syscall.SYS_WAITID, all, 0, uintptr(unsafe.Pointer(&ended)),
		syscall.WEXITED|syscall.WNOWAIT|syscall.WALL, 0, 0)
	if failed != 0 {
		return 0, failed
	}
	return int(ended.fields.child), nil
}

func number(err error) uint32 {
	var number syscall.Errno
	errors.As(err, &number)
	return uint32(number)
}

// send sends a message to the owner. It ignores errors, because the owner may be dead.
func (s *supervisor) send(message Message, rights []byte) {
	_ = syscall.Sendmsg(s.owner, message.encode(), rights, nil, syscall.MSG_NOSIGNAL)
}

func (s *supervisor) start(program Program, descriptor *int) (number int, built Built, err error) {
	closeOnExecFrom(s.owner)
	files := make([]uintptr, program.Files)
	for i := range files {
		files[i] = uintptr(i)
	}
	attributes := &syscall.ProcAttr{
		Dir: program.Dir, Env: syscall.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setpgid: true, PidFD: descriptor},
	}
	if s.mode == Namespace {
		root := s.prepareNamespace(program.Walls)
		if program.Walls != nil {
			program.Walls.Standing = root
			number, built, err = startByLauncher(openLauncher, program, attributes)
			return number, built | root, err
		}
		setNice(program.Nice)
		number, err = syscall.ForkExec(program.Path, program.Args, attributes)
		return number, 0, err
	}
	makeThreads()
	if err := control(prSetChildSubreaper, 1); err != nil {
		return 0, 0, err
	}
	attributes.Sys.Pdeathsig = syscall.SIGKILL
	by := openLauncher
	if s.confined = confineSupervisor(); s.confined {
		by = launcher
	}
	return startByLauncher(by, program, attributes)
}

// closeOnExecFrom prevents the programs that this process becomes or starts from inheriting a descriptor and all with
// higher numbers. Go closes its own in any case, but we may have inherited others: those of make's job server, or one
// that a shell opened.
func closeOnExecFrom(first int) {
	// The number is the same on all architectures that Go knows.
	const sysCloseRange, closeRangeCloseOnExec, last = 436, 1 << 2, 1<<32 - 1
	if _, _, failed := syscall.RawSyscall(sysCloseRange, uintptr(first), last, closeRangeCloseOnExec); failed == 0 {
		return
	}
	// This is for kernels before Linux 5.11.
	open, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range open {
		if descriptor, err := strconv.Atoi(entry.Name()); err == nil && descriptor >= first {
			syscall.CloseOnExec(descriptor)
		}
	}
}

// setNice sets the niceness of this thread, and so of the processes that it starts. A reaper's own first thread keeps
// its niceness, because it has to kill those processes. So the launcher calls setNice.
func setNice(nice int) {
	if nice != 0 {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice) // its only effect is a slower program
	}
}

// prepareNamespace creates a private root if walls ask for one. Otherwise it at least mounts the /proc of the
// namespace, so that a program finds itself there by its number, and no other process. A container may forbid that.
// /proc/self is right in any case. The capability that this takes is not passed on.
func (s *supervisor) prepareNamespace(walls *Walls) (built Built) {
	if walls != nil && walls.Without&PrivateRoot == 0 && privateRoot(walls) == nil {
		built = PrivateRoot
	} else {
		_ = mountProc("/proc", walls != nil)
	}
	if walls != nil && walls.NewNetwork && openNetwork() == nil {
		built |= Network
	}
	_ = control(prCapAmbient, prCapAmbientClearAll)
	return built
}

func (s *supervisor) handleSignals(signals <-chan os.Signal) {
	for number := range signals {
		switch number {
		case syscall.SIGTERM:
			s.signalProgram(syscall.SIGTERM)
		case End:
			s.end()
		}
	}
}

func (s *supervisor) followOwner() {
	for {
		if _, err := syscall.Read(s.owner, make([]byte, 1)); err != syscall.EINTR {
			break // the owner sends nothing, so it has ended
		}
	}
	s.end()
}

// end ends all processes below us. In a namespace, the kernel does it when we end. A reaper continues until it has no
// child.
func (s *supervisor) end() {
	if s.mode == Namespace {
		os.Exit(0)
	}
	s.ended.Do(func() { close(s.ending) })
}
