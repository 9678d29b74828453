// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/process/pid"
	"lva.io/operators/clusters/process/supervisor"
)

func groupAttributes(detachable bool) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if detachable {
		attributes = &syscall.SysProcAttr{Setsid: true}
	} else {
		// Faster than the guard, and works when the guard was killed first. It comes when the thread ends that started the
		// process, which is a lasting one.
		attributes.Pdeathsig = syscall.SIGKILL
	}
	return attributes
}

// executable returns the file of this program, even if its name belongs to another file by now: make rebuilds the lab
// command.
func executable() (string, error) {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return running, nil
	}
	return os.Executable()
}

// niceness is our own. The system call counts it down from 20.
func niceness() int {
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return 20 - priority
}

// explainStartError explains why a program could not start: a hardened system doesn't let users run programs from /tmp.
func explainStartError(path string, err error) string {
	var system unix.Statfs_t
	if errors.Is(err, unix.EACCES) && unix.Statfs(path, &system) == nil && system.Flags&unix.ST_NOEXEC != 0 {
		return ": no program may run from there (noexec): set TMPDIR to a folder on another file system"
	}
	return ""
}

// await waits until the program has ended, then ends what it left in its group, and only then waits for the end of its
// output, which another process in the group may hold open. A program that was not waited for keeps its number: forget
// is called while it still has it.
func await(cmd *exec.Cmd, forget func()) error {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	forget()
	return cmd.Wait()
}

// group is a process group, by a handle of its leader: when the guard learns that the owner is dead, the group may be
// gone, and its number be another's.
type group = pid.Handle

// openGroup is the group with a number; false: its leader is gone.
func openGroup(number int) (group, bool) { return pid.Open(number) }

// patienceForOthers is how long killMarked waits for processes without an environment. Most are another's, and on a
// busy machine there always are some.
const patienceForOthers = 2 * time.Second

// killMarked repeats until it has found none twice: a process may fork while we look, and in the middle of an exec, or
// of its end, it has no environment for a moment. We wait a minute for those that show the marker: on a busy machine,
// dying takes long. One that the kernel can't end (it waits for a disk) is left to its fate. A reaper is asked to end
// what is below it, some of which has no marker, and goes on without us.
func killMarked(id string) {
	const patienceForOurs = time.Minute
	started := time.Now()
	deadline := started.Add(patienceForOthers)
	for none := 0; none < 2 && time.Now().Before(deadline); {
		none++
		for _, number := range pid.All() {
			if number == os.Getpid() {
				continue
			}
			found, ours := endMarked(number, id)
			if ours {
				deadline = started.Add(patienceForOurs)
			}
			if found {
				none = 0
			}
		}
		if none == 0 {
			// What is dying or becoming another program needs the processor more than we do.
			time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel sends no notification
		}
	}
}

// endMarked ends the process that has a number, if it has the marker, which ours reports; a reaper is asked to end.
// found is true also of a process that does not show its marker for the moment.
func endMarked(number int, id string) (found, ours bool) {
	process, there := pid.Open(number) // before we look at it
	if !there {
		return false, false
	}
	defer process.Close()
	dir := filepath.Join("/proc", strconv.Itoa(number))
	environment, err := os.ReadFile(filepath.Join(dir, "environ"))
	switch {
	case len(environment) == 0 && unsettled(dir, err == nil):
		return true, false
	case err != nil || !marked(environment, id):
		return false, false
	case isReaper(dir):
		return process.Signal(supervisor.End) && process.Signal(unix.SIGCONT), true
	}
	return process.Signal(unix.SIGKILL), true
}

// isReaper reports whether a process is a supervisor that must not be killed: nothing else would end what is below it.
// A contained program that only calls itself so gains nothing as long as its own supervisor lives, which ends it.
// Before Linux 6.12, a program without a namespace may have ended that.
func isReaper(process string) bool {
	arguments, err := os.ReadFile(filepath.Join(process, "cmdline"))
	return err == nil && bytes.HasPrefix(arguments, []byte(supervisor.Reaper+"\x00"))
}

// namesBelow are the numbers and names of processes below one, for people: of a fork bomb's, some are enough.
func namesBelow(ancestor int) string {
	const enough = 10
	below := pid.Below(ancestor)
	var names []string
	for _, process := range below[:min(len(below), enough)] {
		name, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.Number), "comm"))
		names = append(names, fmt.Sprintf("%d (%s)", process.Number, bytes.TrimSpace(name)))
	}
	switch more := len(below) - len(names); {
	case len(names) == 0:
		return "nothing is seen there"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	default:
		return strings.Join(names, ", ")
	}
}

// unsettled reports whether a process has no environment for the moment, as far as one of its threads shows. Either it
// is between two programs: it has left the memory of the one, and the kernel has not yet put an environment into that
// of the other, which takes a while with a cold disk. Or it ends: the first process of a namespace has no memory any
// more while it waits for the end of all others there. Then its environment may not be readable, as that of another
// user's process.
func unsettled(process string, readable bool) bool {
	threads, _ := filepath.Glob(filepath.Join(process, "task", "*"))
	return slices.ContainsFunc(threads, func(thread string) bool { return withoutMemory(thread, readable) })
}

// withoutMemory reports whether a thread lives without memory of a program. Where its memory was, the kernel says only
// to those who may read it. (proc(5), /proc/pid/stat)
func withoutMemory(thread string, readable bool) bool {
	stat, err := os.ReadFile(filepath.Join(thread, "stat"))
	if err != nil {
		return false
	}
	// The fields after the program's name, which may hold anything: the first of them is number 3 of the manual's.
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	const (
		state, flags, environmentEnd = 0, 6, 48
		exiting                      = 0x00000004 // PF_EXITING
		kernelThread                 = 0x00200000 // PF_KTHREAD
	)
	if len(fields) <= environmentEnd || strings.ContainsAny(fields[state], "ZX") {
		return false
	}
	word, err := strconv.ParseUint(fields[flags], 10, 64)
	if err != nil || word&kernelThread != 0 {
		return false
	}
	return word&exiting != 0 || readable && fields[environmentEnd] == "0"
}

// Belongs reports whether the process runs and is one of the scope's. Its number may have been reused.
func Belongs(number int, id string) bool {
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(number), "environ"))
	return err == nil && marked(environment, id)
}

// parentAtStart is the process that started us, unless it died before our packages were initialised.
var parentAtStart = unix.Getppid()

// EndWithParent requests a SIGTERM when the process that started us dies. It is for commands that are part of a larger
// one (make): kill -9 of that command must end them, too.
func EndWithParent() {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
	if unix.Getppid() != parentAtStart || adopted() {
		_ = unix.Kill(os.Getpid(), unix.SIGTERM)
	}
}

// adopted reports whether our parent adopts orphans: it is in another session, though we did not begin one. An adopter
// in our own session (the first process of a container) can't be distinguished from the one that started us.
func adopted() bool {
	ours, err := unix.Getsid(0)
	parents, parentErr := unix.Getsid(unix.Getppid())
	return errors.Join(err, parentErr) == nil && parents != ours && ours != os.Getpid()
}
