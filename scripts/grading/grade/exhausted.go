// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/report"
)

// exhaustible are the resources of a machine whose exhaustion ends an operator. A submission can print such an error
// itself, so the grader also tries to allocate the resource, after the operator has ended and released its share. It
// keeps its share of the disk: the folders and files that it may fill are given to confirmed.
var exhaustible = []struct {
	output    *regexp.Regexp
	confirmed func(own []string) bool
	reason    string
}{
	{
		regexp.MustCompile(`(?i)(?:inotify|fsnotify|watcher).*too many open files`),
		func([]string) bool { return inotifyExhausted() },
		"this user has fewer instances of inotify left than the operator needs to watch files: end other programs " +
			"that watch files, or let root run: sysctl -w fs.inotify.max_user_instances=1024",
	},
	{
		regexp.MustCompile(`(?i)no space left on device`), othersFillDisk, fullDisk,
	},
	{
		regexp.MustCompile(`runtime: failed to create new OS thread|pthread_create failed|` +
			`fork/exec .*: resource temporarily unavailable`),
		func([]string) bool { return processesExhausted() },
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

// ownShare is how much of the disk a submission may use, in bytes, before it counts as having filled the disk itself.
const ownShare = 256 << 20

// othersFillDisk reports whether the disk of TMPDIR is full, and not because of the folders and files that the
// submission may fill: those in which its programs write, and the audit log of its requests.
func othersFillDisk(own []string) bool {
	return diskIsFull(os.TempDir()) && !holdMore(ownShare, own)
}

// holdMore reports whether folders and files have allocated more than a limit, in bytes. What is missing is empty. A
// folder that can't be read counts as larger, because a submission could hide its files there.
func holdMore(limit int64, paths []string) bool {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
			var info fs.FileInfo
			if err == nil {
				info, err = entry.Info()
			}
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			}
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				limit -= stat.Blocks * 512 // stat(2)
			}
			if limit < 0 {
				return fs.SkipAll
			}
			return nil
		})
		if limit < 0 || err != nil {
			return true
		}
	}
	return false
}

// orFullDisk replaces a result that the full disk of TMPDIR may have caused: the API server and the checks write there,
// too. It must be called before the files of the run are removed. own are the folders and files that the submission may
// fill: if it has filled the disk itself, the result stays.
func (r *run) orFullDisk(err error, own []string) error {
	if !othersFillDisk(own) {
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
	case isVerdict && (v.machine || v.outcome == report.NotBuilt || v.outcome == report.NotGenerated):
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
// started, and own are the folders and files that it may fill.
func exhausted(output string, ending error, kills int, own []string) *verdict {
	for _, e := range exhaustible {
		if e.output.MatchString(output) && e.confirmed(own) {
			return &verdict{outcome: report.Error, reason: e.reason, machine: e.reason == fullDisk}
		}
	}
	if exit, ended := errors.AsType[process.ExitError](ending); ended && exit.ExitCode() < 0 && kills > 0 {
		return &verdict{outcome: report.Error, reason: "the operator was killed, and the kernel has killed a program " +
			"because the machine had no memory left: " +
			"end other programs, and check how much memory the operator uses"}
	}
	return nil
}
