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
		// The signal is faster than the guard, and comes even if the guard was killed first. It comes when the thread that
		// started the process ends. That is the thread of package thread, which never ends.
		attributes.Pdeathsig = syscall.SIGKILL
	}
	return attributes
}

// executable returns the file of this program, even if its name now belongs to another file, because make may rebuild
// the lab command.
func executable() (string, error) {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return running, nil
	}
	return os.Executable()
}

// niceness returns our own niceness. The system call counts down from 20.
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
// output, which another process in the group may hold open. A program that was not waited for keeps its number, and
// forget is called while it still does.
func await(cmd *exec.Cmd, forget func()) error {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	forget()
	return cmd.Wait()
}

// group is a process group, by a handle of its leader. When the guard notices that the owner is dead, the group may
// have ended, and another group may have its number.
type group = pid.Handle

// openGroup returns the group with a number, or false if its leader has ended.
func openGroup(number int) (group, bool) { return pid.Open(number) }

// patienceForOthers is how long killMarked waits for processes without an environment. Most are another's, and on a
// busy machine there always are some.
const patienceForOthers = 2 * time.Second

// killMarked repeats until it has found no process twice. A process may fork while we look, and in the middle of an
// exec, or while it ends, it has no environment for a moment. We wait a minute for those that show the marker, because
// dying takes long on a busy machine. We give up on a process that the kernel can't end, such as one that waits for a
// disk. A reaper is asked to end the processes below it, some of which have no marker, and continues without us.
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
			// Processes that are dying or becoming another program need the processor more than we do.
			time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel sends no notification
		}
	}
}

// endMarked ends the process that has a number, if it has the marker, which ours reports. A reaper is asked to end.
// found is also true for a process that does not show its marker for the moment.
func endMarked(number int, id string) (found, ours bool) {
	process, ok := pid.Open(number) // before we look at it
	if !ok {
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

// isReaper reports whether a process is a supervisor that must not be killed, because nothing else would end the
// processes below it. A contained program that only takes the name of one gains nothing as long as its own supervisor
// lives, which ends it. Before Linux 6.12, a program without a namespace may have killed its supervisor.
func isReaper(process string) bool {
	arguments, err := os.ReadFile(filepath.Join(process, "cmdline"))
	return err == nil && bytes.HasPrefix(arguments, []byte(supervisor.Reaper+"\x00"))
}

// namesBelow returns the numbers and names of the processes below an ancestor, for people. Of a fork bomb's processes,
// it returns only some.
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

// unsettled reports whether a process has no environment for the moment, as far as one of its threads shows. A process
// between two programs has left the memory of the first, and the kernel has not yet put an environment into the memory
// of the second, which takes a while with a cold disk. The first process of a namespace has no memory any more when it
// waits for the end of all others there. Then its environment may be unreadable, like that of another user's process.
func unsettled(process string, readable bool) bool {
	threads, _ := filepath.Glob(filepath.Join(process, "task", "*"))
	return slices.ContainsFunc(threads, func(thread string) bool { return withoutMemory(thread, readable) })
}

// withoutMemory reports whether a thread lives without memory of a program. The kernel shows the addresses of the
// memory only to processes that may read it. (proc(5), /proc/pid/stat)
func withoutMemory(thread string, readable bool) bool {
	stat, err := os.ReadFile(filepath.Join(thread, "stat"))
	if err != nil {
		return false
	}
	// The fields after the program's name, which may contain anything. The first of them is number 3 of the manual's.
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

// Belongs reports whether the process runs and belongs to the scope. Its number may have been reused.
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
