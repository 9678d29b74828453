// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"os"
	"syscall"
	"unsafe"
)

// From linux/landlock.h and linux/prctl.h. The system calls have these numbers on all architectures that Go knows.
const (
	sysLandlockCreateRuleset = 444
	sysLandlockRestrictSelf  = 446
	landlockScopeSignal      = 1 << 1
	landlockLogSameExecOff   = 1 << 0
	prSetNoNewPrivs          = 38
)

// launcher is the name of a process between a reaper and its program. It confines itself and becomes the program. A
// confined process can't signal or trace processes outside (landlock(7), Linux 6.12), and can't change their limits, so
// it can't kill its reaper, the owner or the guard. A namespace has the same effect.
const launcher Mode = "operator-labs-launcher"

// openLauncher is the same for a reaper that could not confine itself, which earlier kernels can't do. It becomes the
// program all the same.
const openLauncher Mode = "operator-labs-open-launcher"

// ruleset creates the rules of a launcher. It fails where the kernel does not support them.
func ruleset() (descriptor int, err error) {
	attributes := struct{ files, network, scoped uint64 }{scoped: landlockScopeSignal}
	made, _, failed := syscall.RawSyscall(sysLandlockCreateRuleset,
		uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0)
	if failed != 0 {
		return -1, failed
	}
	return int(made), nil
}

// setNoNewPrivs prevents this thread, and all that it starts from now on, from getting privileges by a setuid program.
func setNoNewPrivs() error { return control(prSetNoNewPrivs, 1) }

// confineSignals prevents this thread, and all that it starts from now on, from signaling processes outside. Existing
// threads of this process are not affected.
func confineSignals(flags uintptr) error {
	rules, err := ruleset()
	if err != nil {
		return err
	}
	defer syscall.Close(rules)
	if err := setNoNewPrivs(); err != nil {
		return err
	}
	if _, _, failed := syscall.RawSyscall(sysLandlockRestrictSelf, uintptr(rules), flags, 0); failed != 0 {
		return failed
	}
	return nil
}

// confineSupervisor confines the signals of this thread, so that a signal to all processes reaches only its
// descendants. It reports whether it has verified that: a signal that could reach our parent before no longer can. If
// it reports false, a signal to all processes would end everything that our user runs.
func confineSupervisor() bool {
	parent := syscall.Getppid()
	if syscall.Kill(parent, 0) != nil {
		return false
	}
	// From Linux 6.15 on, the audit log would have a line for each process that the signal does not reach. Earlier kernels
	// know no flags.
	if confineSignals(landlockLogSameExecOff) != nil && confineSignals(0) != nil {
		return false
	}
	// If the parent is dead, the number may be that of another user's process, which no signal of ours reaches in any
	// case.
	return syscall.Kill(parent, 0) == syscall.EPERM && syscall.Getppid() == parent
}

// launch becomes the program, or writes a message to the descriptor that comes after the program's.
func launch(mode Mode, program Program) {
	syscall.CloseOnExec(program.Files)
	setNice(program.Nice)
	_ = setNoNewPrivs() // also where there is no Landlock, so that it can't kill another user's processes
	kind, err := Unconfined, confineSignals(0)
	if limitsErr := keepLimits(); err == nil {
		err = limitsErr
	}
	if program.Walls != nil {
		built := program.Walls.enforce()
		_, _ = syscall.Write(program.Files, Message{Walled, uint32(built)}.encode())
		if missing := program.Walls.Require &^ (built | program.Walls.Standing); missing != 0 {
			_, _ = syscall.Write(program.Files, Message{Unwalled, uint32(missing)}.encode())
			return
		}
	}
	if err == nil || mode == openLauncher {
		kind, err = Failed, syscall.Exec(program.Path, program.Args, syscall.Environ())
	}
	_, _ = syscall.Write(program.Files, Message{kind, number(err)}.encode())
}

// failure is the error of a launcher.
type failure Message

func (f failure) Error() string { return syscall.Errno(f.Value).Error() }

// startByLauncher starts a program by a launcher, on the thread on which it is called, and returns the walls around it.
func startByLauncher(mode Mode, program Program, attributes *syscall.ProcAttr) (number int, built Built, err error) {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return 0, 0, err
	}
	answer := os.NewFile(uintptr(pipe[0]), "launcher")
	defer answer.Close()
	attributes.Files = append(attributes.Files, uintptr(pipe[1]))
	started, err := syscall.ForkExec("/proc/self/exe", program.CommandLine(mode), attributes)
	_ = syscall.Close(pipe[1])
	if err != nil {
		return 0, 0, err
	}
	message, err := Read(answer)
	if err == nil && message.Kind == Walled {
		built = Built(message.Value)
		message, err = Read(answer)
	}
	if err != nil { // it has become the program
		return started, built, nil
	}
	_, _ = syscall.Wait4(started, nil, 0, nil)
	return 0, 0, failure(message)
}
