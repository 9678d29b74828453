// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gobuild

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"lva.io/operators/clusters/process"
)

// fault is a failure of the go command that the machine causes. It is recognised from one line of what the go command
// printed.
type fault struct {
	line *regexp.Regexp
	// errors are those of system calls that fail in this process for the same reason.
	errors []error
	// loading is true if the fault happens before anything is compiled. A line that comes later is the compiler's, and a
	// directive such as `//line go: creating work dir` can give it any beginning. Its end is always the compiler's own, so
	// expressions for all other faults end in $.
	loading bool
	// problem and remedy are the halves of a sentence, with the message of the go command between them.
	problem, remedy string
}

// faults are tried in this order.
var faults = []fault{
	{
		line:    regexp.MustCompile(`(no space left on device|disk quota exceeded|file too large)$`),
		errors:  []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG},
		problem: "the disk is full",
		remedy:  "free some space, or set TMPDIR and GOCACHE to folders on another disk",
	},
	{
		line:    regexp.MustCompile(`(input/output error|read-only file system|stale (NFS )?file handle)$`),
		errors:  []error{syscall.EIO, syscall.EROFS, syscall.ESTALE},
		problem: "the disk can't be read or written",
		remedy:  "look at `dmesg`, or set TMPDIR and GOCACHE to folders on another disk",
	},
	{
		line: regexp.MustCompile(`(^|: )signal: killed$|(: cannot allocate memory|errno=12\))$|` +
			`^(fatal error|runtime): .*(out of memory|page summary memory)$`),
		errors:  []error{syscall.ENOMEM},
		problem: "a program of Go was killed or had no memory left",
		remedy:  "close other programs, or give this machine or container more memory",
	},
	{
		line:    regexp.MustCompile(`(: resource temporarily unavailable|errno=11\)|: too many open files)$`),
		errors:  []error{syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE},
		problem: "the system allows no more processes or open files",
		remedy:  "end other programs, or raise the limits (`ulimit -u`, `ulimit -n`)",
	},
	{
		line:    regexp.MustCompile(`: exec format error$`),
		errors:  []error{syscall.ENOEXEC},
		problem: "the installation of Go is damaged",
		remedy:  "install Go again, from go.dev/dl or your system's packages",
	},
	{
		line: regexp.MustCompile(`(^|: )(build cache is (required|disabled)|` +
			`failed to initialize build cache|module cache not found|` +
			`could not create module cache|(GOPATH|GOMODCACHE) entry is relative)|` +
			`(go-build\S*|pkg/mod/\S*|cache/download/\S*|cache/lock): permission denied$`),
		loading: true,
		problem: "Go can't use the folders of its caches",
		remedy:  "set HOME, or GOCACHE and GOMODCACHE, to folders that you can write to",
	},
	{
		line:    regexp.MustCompile(`(^|: )creating work dir: `),
		loading: true,
		problem: "Go can't make its temporary files",
		remedy:  "set TMPDIR to a folder that you can write to",
	},
	{
		line: regexp.MustCompile(`(^|: )(parsing \$GOFLAGS|unsupported GOOS/GOARCH|` +
			`unknown GOEXPERIMENT|unknown environment setting|` +
			`invalid GOTOOLCHAIN|invalid proxy URL|invalid GOSUMDB|missing GOSUMDB|malformed GOMEMLIMIT)`),
		loading: true,
		problem: "Go is set up wrong",
		remedy:  "correct the variable in your environment, or in the file that `go env GOENV` names",
	},
	{
		line: regexp.MustCompile(`(^|: )(cannot find GOROOT directory|no such tool "|` +
			`package (bytes|context|errors|fmt|io|os|runtime|strconv|strings|sync|time|unicode/utf8) is not in std)`),
		loading: true,
		problem: "the installation of Go is damaged",
		remedy:  "install Go again, from go.dev/dl or your system's packages",
	},
	{
		line:    regexp.MustCompile(`"(git|hg|svn|bzr|fossil)": executable file not found`),
		loading: true,
		problem: "a module has to be downloaded from its repository",
		remedy:  "install the program that is missing, or set GOPROXY to a module proxy that has the module",
	},
	{
		line:    regexp.MustCompile(`verifying \S+: checksum mismatch$`),
		loading: true,
		problem: "a module is not the one that go.sum names",
		remedy:  "if you edited go.sum, restore it; otherwise the module proxy changed the module: try another GOPROXY",
	},
	{
		// A proxy that answers 404 or 410 works: there is no such module.
		line: regexp.MustCompile(`\b(Get|Head|read) "https?://\S+": |` +
			`reading https?://\S+: (40[1378]|429|5\d\d)\b|: dial tcp|` +
			`proxyconnect tcp: |Could not resolve (host|proxy)|unable to access 'https?://|ssh: connect to host |` +
			`[Tt]imed out|(TLS handshake|i/o) timeout`),
		loading: true,
		problem: "modules could not be downloaded, because the network or the module proxy failed",
		remedy:  "check the connection, or set GOPROXY to a module proxy that answers",
	},
}

var (
	// codePosition begins a message about a line of code or of go.mod.
	codePosition = regexp.MustCompile(`^\S*(\.go|go\.mod|go\.sum|go\.work|modules\.txt):\d+(:\d+)?: `)
	// unloaded begins the go command's message about an import that it could not load, after the position of the import.
	unloaded = regexp.MustCompile(`^(\S+@v\S+: |unrecognized import path |` +
		`verifying \S+@v|invalid proxy URL|package \S+ is not in std|` +
		`(read|write|open|mkdir|stat|create) ["/])`)
)

// MachineFault reports whether the go command failed because of the machine, the network or the user's settings, and
// not because of the code that it built. output is what the go command printed, and how it ended. reason is one
// sentence with the problem and what to do. Code that we don't trust can make the go command print any line, for
// example with a string literal of several lines. See MachineError.
func MachineFault(output string) (reason string, is bool) {
	for _, fault := range faults {
		for line := range strings.Lines(output) {
			line = strings.TrimRight(line, "\r\n")
			if strings.HasPrefix(line, "# ") && fault.loading {
				break // the compiler's output begins here
			}
			if at := codePosition.FindString(line); at != "" {
				if line = line[len(at):]; !unloaded.MatchString(line) {
					continue
				}
			}
			if fault.line.MatchString(line) {
				return fault.reason(line), true
			}
		}
	}
	return "", false
}

// MachineError reports whether an error of this process is a fault of the machine: a system call that failed, or a
// program that was ended by a signal. It does not depend on the text of the error, which may contain names of files of
// code that we don't trust. reason is as in MachineFault.
func MachineError(err error) (reason string, is bool) {
	cause := err
	if exit, ended := errors.AsType[process.ExitError](err); ended && exit.ExitCode() < 0 {
		cause = syscall.ENOMEM // usually, the kernel sends the signal
	}
	for _, fault := range faults {
		if slices.ContainsFunc(fault.errors, func(known error) bool { return errors.Is(cause, known) }) {
			return fault.reason(err.Error()), true
		}
	}
	return "", false
}

func (f fault) reason(message string) string {
	return f.problem + " (" + detail(message) + "): " + f.remedy
}

// detail returns the go command's message. Of a long line it returns the end, which has the cause.
func detail(line string) string {
	const most = 200
	line = strings.TrimPrefix(strings.TrimSpace(line), "go: ")
	if letters := []rune(line); len(letters) > most {
		return "…" + string(letters[len(letters)-most:])
	}
	return line
}
