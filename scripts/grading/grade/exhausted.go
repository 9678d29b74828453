// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"lva.io/operators/scripts/grading/report"
)

// exhaustible are the resources that a machine can run out of, so that an operator ends. A submission can print such an
// error itself, so the machine is asked as well, when the operator has ended and released its resources.
var exhaustible = []struct {
	output    *regexp.Regexp
	confirmed func() bool
	reason    string
}{
	{
		regexp.MustCompile(`(?i)(?:inotify|fsnotify|watcher).*too many open files`), inotifyExhausted,
		"this user has fewer instances of inotify left than the operator needs to watch files: end other programs " +
			"that watch files, or let root run: sysctl -w fs.inotify.max_user_instances=1024",
	},
	{
		regexp.MustCompile(`(?i)no space left on device`), func() bool { return diskIsFull(os.TempDir()) },
		"the disk of TMPDIR is full: free some space, or set TMPDIR to a folder on another disk",
	},
	{
		regexp.MustCompile(`runtime: failed to create new OS thread|pthread_create failed|` +
			`fork/exec .*: resource temporarily unavailable`), processesExhausted,
		"this user can start fewer processes or threads than the operator needs: end other programs, " +
			"or raise the limit (ulimit -u, or pids.max of the control group)",
	},
}

// diskFull is so little space that a run can't go on, in bytes.
const diskFull = 1 << 20

func diskIsFull(dir string) bool {
	var system syscall.Statfs_t
	return syscall.Statfs(dir, &system) == nil && system.Bavail*uint64(system.Bsize) < diskFull //nolint:gosec // sizes are not negative
}

// An operator uses several units of a resource, and releases all of them when it ends. A single unit that is available
// says nothing, so as many are tried as an operator uses:
const (
	// inotifyNeeded are two times two instances of inotify: an operator watches the certificates of its webhooks and of
	// its metrics, and a student's own operator may watch a file or two more.
	inotifyNeeded = 4
	// processesNeeded are about as many processes as a program of Go has threads when it begins to work; the limits count
	// both alike.
	processesNeeded = 8
)

// runsOut takes as many of something as are needed, all at once, and gives them back. It reports whether that failed
// with an error that says that there is no more. Other errors say nothing of it.
func runsOut(needed int, none error, take func() (release func(), err error)) bool {
	for range needed {
		release, err := take()
		if err != nil {
			return errors.Is(err, none)
		}
		defer release()
	}
	return false
}

// processesExhausted reports whether fewer processes can be started than an operator needs.
func processesExhausted() bool {
	return runsOut(processesNeeded, syscall.EAGAIN, func() (func(), error) {
		c := exec.Command("/bin/cat") //nolint:noctx // it reads what we close
		input, err := c.StdinPipe()
		if err != nil {
			return nil, err
		}
		if err := c.Start(); err != nil {
			return nil, err
		}
		return func() { _ = errors.Join(input.Close(), c.Wait()) }, nil
	})
}

// exhausted is the verdict on an operator that has ended because this machine had no more of something; nil: it has
// not. kills is how many processes the kernel has killed for lack of memory since the operator was started.
func exhausted(output string, ending error, kills int) *verdict {
	for _, e := range exhaustible {
		if e.output.MatchString(output) && e.confirmed() {
			return &verdict{outcome: report.Error, reason: e.reason}
		}
	}
	if ending != nil && strings.Contains(ending.Error(), "signal: killed") && kills > 0 {
		return &verdict{outcome: report.Error, reason: "the operator was killed, and the kernel has killed a program " +
			"because the machine had no memory left: " +
			"end other programs, and check how much memory the operator uses"}
	}
	return nil
}
