// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"lva.io/operators/clusters/process/pid"
)

// From linux/prctl.h, as in golang.org/x/sys/unix, which would have us wait for reflection.
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
	if mode == launcher {
		launch(program)
		os.Exit(1)
	}
	s := &supervisor{mode: mode, owner: program.Files}
	s.run(program)
	os.Exit(0)
}

type supervisor struct {
	mode    Mode
	owner   int // the descriptor of the connection to it
	program pid.Handle
	ending  sync.Once
}

// run returns when nothing is left below the supervisor. It does not leave the thread that it was called on, the first of the
// process, which lasts as long as that: so does the program's parent death signal, which belongs to a thread.
func (s *supervisor) run(program Program) {
	// A handler, and not SIG_IGN, which the program would inherit. What was ignored when we began is ignored by the program.
	signals := make(chan os.Signal, 16)
	for number := syscall.Signal(1); number <= 64; number++ {
		if !signal.Ignored(number) {
			signal.Notify(signals, number)
		}
	}
	descriptor := -1
	started, err := s.start(program, &descriptor)
	if err != nil {
		s.tell(Message{Failed, number(err)}, nil)
		return
	}
	s.program, _ = pid.Open(started) // before we wait for it, after which its number may be another's
	var rights []byte
	if descriptor >= 0 {
		rights = syscall.UnixRights(descriptor)
	}
	s.tell(Message{Kind: Started}, rights)
	go s.obey(signals)
	go s.followOwner()
	for {
		var status syscall.WaitStatus
		switch ended, err := syscall.Wait4(-1, &status, syscall.WALL, nil); {
		case err == syscall.EINTR:
		case err != nil: // no child is left, so no descendant is: an orphan would be our child
			return
		case ended == started:
			s.tell(Message{Ended, uint32(status)}, nil)
			s.end()
		}
	}
}

func number(err error) uint32 {
	var number syscall.Errno
	errors.As(err, &number)
	return uint32(number)
}

// tell tells the owner something. An owner that is dead need not hear it.
func (s *supervisor) tell(message Message, rights []byte) {
	_ = syscall.Sendmsg(s.owner, message.encode(), rights, nil, syscall.MSG_NOSIGNAL)
}

func (s *supervisor) start(program Program, descriptor *int) (int, error) {
	syscall.CloseOnExec(s.owner)
	if program.Nice != 0 {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, program.Nice) // it only would be slower
	}
	files := make([]uintptr, program.Files)
	for i := range files {
		files[i] = uintptr(i)
	}
	attributes := &syscall.ProcAttr{
		Dir: program.Dir, Env: syscall.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setpgid: true, PidFD: descriptor},
	}
	if s.mode == Namespace {
		prepareNamespace()
		return syscall.ForkExec(program.Path, program.Args, attributes)
	}
	makeThreads()
	if err := control(prSetChildSubreaper, 1); err != nil {
		return 0, err
	}
	attributes.Sys.Pdeathsig = syscall.SIGKILL
	if rules, err := ruleset(); err == nil {
		_ = syscall.Close(rules)
		return startShutIn(program, attributes)
	}
	return syscall.ForkExec(program.Path, program.Args, attributes)
}

// prepareNamespace makes /proc that of the namespace, so that a program finds itself there by its number, and nobody else.
// A container may forbid that; /proc/self is right in any case. The capability that this takes is not passed on.
func prepareNamespace() {
	_ = syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	_ = control(prCapAmbient, prCapAmbientClearAll)
}

func (s *supervisor) obey(signals <-chan os.Signal) {
	for number := range signals {
		switch number {
		case syscall.SIGTERM:
			s.program.SignalGroup(syscall.SIGTERM)
		case End:
			s.end()
		}
	}
}

func (s *supervisor) followOwner() {
	for {
		if _, err := syscall.Read(s.owner, make([]byte, 1)); err != syscall.EINTR {
			break // the owner says nothing: it has ended
		}
	}
	s.end()
}

// end ends all that is below us. In a namespace, the kernel does it when we end; a reaper goes on until it has no child.
func (s *supervisor) end() {
	if s.mode == Namespace {
		os.Exit(0)
	}
	s.ending.Do(func() { go killDescendants() })
}
