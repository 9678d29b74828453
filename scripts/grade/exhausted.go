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

	"lva.io/operators/scripts/report"
)

// exhaustions are what a machine can have no more of, and an operator ends because of it. A submission can print such a line itself, so
// the machine is asked as well, when the operator has ended and given back what it had.
var exhaustions = []struct {
	said   *regexp.Regexp
	holds  func() bool
	reason string
}{
	{
		regexp.MustCompile(`(?i)(?:inotify|fsnotify|watcher).*too many open files`), noInotify,
		"this user has no instance of inotify left, which the operator needs to watch files: end other programs that watch files, or let root run: sysctl -w fs.inotify.max_user_instances=1024",
	},
	{
		regexp.MustCompile(`(?i)no space left on device`), func() bool { return diskIsFull(os.TempDir()) },
		"the disk of TMPDIR is full: free some space, or set TMPDIR to a folder on another disk",
	},
	{
		regexp.MustCompile(`runtime: failed to create new OS thread|pthread_create failed|fork/exec .*: resource temporarily unavailable`), noProcess,
		"this user can start no more processes or threads: end other programs, or raise the limit (ulimit -u, or pids.max of the control group)",
	},
}

// diskFull is so little space that a run can't go on, in bytes.
const diskFull = 1 << 20

func diskIsFull(dir string) bool {
	var system syscall.Statfs_t
	return syscall.Statfs(dir, &system) == nil && system.Bavail*uint64(system.Bsize) < diskFull //nolint:gosec // sizes are not negative
}

// noProcess reports whether no process can be started.
func noProcess() bool {
	c := exec.Command("/bin/true") //nolint:noctx // it does nothing
	err := c.Run()
	return errors.Is(err, syscall.EAGAIN)
}

// exhausted is the verdict on an operator that has ended because this machine had no more of something; nil: it has not. kills is how many
// processes the kernel has killed for lack of memory since the operator was started.
func exhausted(said string, ending error, kills int) *verdict {
	for _, e := range exhaustions {
		if e.said.MatchString(said) && e.holds() {
			return &verdict{outcome: report.Error, reason: e.reason}
		}
	}
	if ending != nil && strings.Contains(ending.Error(), "signal: killed") && kills > 0 {
		return &verdict{outcome: report.Error, reason: "the kernel has killed a program, since the machine had no memory left, and the operator is one that was killed: " +
			"end other programs, and look at how much memory the operator takes"}
	}
	return nil
}
