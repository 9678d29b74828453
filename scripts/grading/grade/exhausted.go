// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"lva.io/operators/scripts/grading/report"
)

// exhaustible are the resources of a machine whose exhaustion ends an operator. A submission can print such an error
// itself, so the grader also tries to allocate the resource, after the operator has ended and released its share.
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
		fullDisk,
	},
	{
		regexp.MustCompile(`runtime: failed to create new OS thread|pthread_create failed|` +
			`fork/exec .*: resource temporarily unavailable`), processesExhausted,
		"this user can start fewer processes or threads than the operator needs: end other programs, " +
			"or raise the limit (ulimit -u, or pids.max of the control group)",
	},
}

// fullDisk is the reason of a run that had no space.
const fullDisk = "the disk of TMPDIR is full: free some space, or set TMPDIR to a folder on another disk"

// diskFull is the free space, in bytes, below which a run can't continue.
const diskFull = 1 << 20

func diskIsFull(dir string) bool {
	var system syscall.Statfs_t
	return syscall.Statfs(dir, &system) == nil &&
		system.Bavail*uint64(system.Bsize) < diskFull //nolint:gosec // sizes are not negative
}

// orFullDisk replaces a result that the full disk of TMPDIR may have caused: the API server and the checks write there,
// too. It must be called before the files of the run are removed.
func (r *run) orFullDisk(err error) error {
	if !diskIsFull(os.TempDir()) {
		return err
	}
	return r.onFullDisk(err)
}

// onFullDisk replaces a result of a run on a full disk, unless the disk can't have caused it. The reason keeps the
// error that it replaces.
func (r *run) onFullDisk(err error) error {
	v, isVerdict := errors.AsType[*verdict](err)
	switch {
	case err == nil && !r.failed():
		return nil
	case isVerdict && slices.Contains([]report.Outcome{report.NotBuilt, report.NotGenerated}, v.outcome):
		return err
	case isVerdict && v.machine:
		return err
	}
	full := &verdict{outcome: report.Error, machine: true, reason: fullDisk}
	if err != nil {
		full.reason += fmt.Sprintf(" (without space, the run ended with: %s)", err)
	}
	return full
}

// An operator uses several units of a resource, and releases all of them when it ends. A single free unit is not
// enough, so the grader tries to allocate as many as an operator uses:
const (
	// inotifyNeeded is two times two instances of inotify: an operator watches the certificates of its webhooks and of
	// its metrics, and a student's own operator may watch a file or two more.
	inotifyNeeded = 4
	// processesNeeded is roughly how many threads a Go program has when it begins to work. The limits count processes
	// and threads alike.
	processesNeeded = 8
)

// runsOut allocates as many units of a resource as are needed, all at once, and releases them. It reports whether
// that failed because none was left, which is the error none. It ignores other errors.
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

// exhausted is the verdict on an operator that has ended because this machine ran out of a resource. It is nil if the
// machine did not. kills is how many processes the kernel has killed for lack of memory since the operator was
// started.
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
