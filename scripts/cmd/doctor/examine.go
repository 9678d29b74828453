// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/checkout/programs"
)

// examine returns all findings about this machine and the checkout at root, in the order in which they are printed.
func examine(root string) []Finding {
	var all []Finding
	add := func(name string, f Finding) {
		f.Name = name
		all = append(all, f)
	}
	add("Go", goFound(root))
	add("make", tool("make"))
	add("git", tool("git"))
	add("processors", good(fmt.Sprintf("%d %s on %s", runtime.NumCPU(), runtime.GOARCH, runtime.GOOS)))
	add("clone", checkLocation(root))
	add("clone's disk", cloneDisk(root))
	add("line ends", lineEnds(root))
	add("TMPDIR", temporary())
	add("TMPDIR's disk", disk(os.TempDir()))
	all = append(all, ofSystem()...)
	add("clock", clock(root))
	add("loopback", loopback())
	add("module proxy", proxy(root))
	return all
}

// neutral are the Makefile's settings of the go command, so that the doctor finds what make finds.
var neutral = []string{"GOWORK=off", "GOFLAGS=-mod=readonly", "GOTOOLCHAIN=local", "GOOS=", "GOARCH=", "CGO_ENABLED=0"}

// output returns the first line of a command's output. If the command fails, the error is the first line of its error
// output.
func output(dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), neutral...)
	out, err := c.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		if message, _, _ := strings.Cut(strings.TrimSpace(string(failed.Stderr)), "\n"); message != "" {
			err = errors.New(message)
		}
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line), err
}

func tool(name string) Finding {
	found, err := output("", name, "--version")
	if err != nil {
		return bad(allLabs, "not found on PATH", "Let root run: apt-get install "+name)
	}
	return good(found)
}

var version = regexp.MustCompile(`go(\d+)\.(\d+)`)

// goFound compares Go with the version that go.work names.
func goFound(root string) Finding {
	content, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return bad(allLabs, err.Error(), "Clone the repository again.")
	}
	wanted := version.FindStringSubmatch(strings.ReplaceAll(string(content), "go ", "go"))
	if wanted == nil {
		return bad(allLabs, "go.work names no version of Go", "Clone the repository again.")
	}
	path, err := exec.LookPath("go")
	if err != nil {
		return bad(allLabs, "not found on PATH", "Install it from go.dev/dl.")
	}
	have, err := output(root, path, "env", "GOVERSION")
	if err != nil {
		return bad(allLabs, path+" fails: "+err.Error(),
			"Correct what it names, in the environment or in the file of `go env GOENV`, or install it again from go.dev/dl.")
	}
	found := version.FindStringSubmatch(have)
	if found == nil {
		return bad(allLabs, fmt.Sprintf("%s reports the version %q", path, have), "Install it from go.dev/dl.")
	}
	number := func(text string) int { n, _ := strconv.Atoi(text); return n } // the pattern has matched digits
	if number(found[1]) < number(wanted[1]) || found[1] == wanted[1] && number(found[2]) < number(wanted[2]) {
		return bad(
			allLabs, have, fmt.Sprintf("Go %s.%s or newer is needed: install it from go.dev/dl.", wanted[1], wanted[2]),
		)
	}
	return good(have + " at " + path)
}

// checkLocation checks whether the commands can work in the clone.
func checkLocation(root string) Finding {
	err := programs.CheckLocation(root)
	if unfit, ok := errors.AsType[*programs.UnsuitableError](err); ok {
		return bad(allLabs, unfit.Reason, unfit.Remedy)
	}
	return good(root)
}

// capitalized returns a text with a capital first letter, for the beginning of a sentence.
func capitalized(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// spaceForRuns is how much disk space a run takes, in bytes.
const spaceForRuns = 1e9

// cloneDisk decides, by the rules of the bootstrap, whether the first build can begin.
func cloneDisk(root string) Finding {
	build, needed, err := programs.PlanFirstBuild(root)
	if err != nil || !needed {
		return disk(root)
	}
	found, text := fmt.Sprintf("%.1f GB free", build.Free/1e9), capitalized(build.String())
	switch {
	case build.Impossible():
		return bad(allLabs, found, text+": free some space, or clone onto another disk.")
	case build.Tight():
		return note(
			allLabs, found, text+". That suffices if Go's caches are on another disk, or were filled by another clone.",
		)
	}
	return good(found)
}

func disk(dir string) Finding {
	free, err := programs.Free(dir)
	if err != nil {
		return note(allLabs, err.Error(), "Look at the folder.")
	}
	found := fmt.Sprintf("%.1f GB free", free/1e9)
	if free < spaceForRuns {
		return bad(allLabs, found, "A run takes up to 1 GB: free some space, or set TMPDIR to a folder on another disk.")
	}
	return good(found)
}

// unixLineEnds corrects the files of a checkout whose line ends differ from git's copies. It does not check out files
// again, because that would discard a student's uncommitted changes.
const unixLineEnds = `git config core.autocrlf false && git ls-files -z --eol | ` +
	`sed -zn 's/^i\/lf *w\/\(crlf\|mixed\)[^\t]*\t//p' | xargs -0r sed -i 's/\r$//'`

// lineEnds checks whether git has written files with the line ends of Windows.
func lineEnds(root string) Finding {
	content, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err == nil && bytes.Contains(content, []byte("\r\n")) {
		return bad(allLabs, "those of Windows (CRLF)", "This corrects them in place, and keeps your work. Run: "+unixLineEnds)
	}
	return good("those of Unix (LF)")
}

// temporary checks the folder in which runs create their folders.
func temporary() Finding {
	root, err := process.Root()
	if err != nil {
		return bad(allLabs, err.Error(), "Set TMPDIR.")
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return bad(allLabs, err.Error(), "Set TMPDIR to another folder.")
	}
	defer scope.Close()
	script := filepath.Join(scope.Dir, "program")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
		return bad(allLabs, err.Error(), "Free some space, or set TMPDIR to another folder.")
	}
	started, err := scope.Start(process.Spec{Path: script})
	if errors.Is(err, fs.ErrPermission) {
		return bad(allLabs, "no program may run there (noexec)", "Set TMPDIR to a folder on another file system.")
	}
	if err != nil {
		return bad(allLabs, err.Error(), "Set TMPDIR to another folder.")
	}
	<-started.Done()
	return good(filepath.Dir(root) + inMemory(root))
}

// clock compares the clock with the latest commit, since the certificates of a run are valid from the current time.
func clock(root string) Finding {
	now := time.Now()
	found := now.UTC().Format("2006-01-02 15:04 UTC")
	text, err := output(root, "git", "log", "-1", "--format=%ct")
	seconds, wrong := strconv.ParseInt(text, 10, 64)
	if err == nil && wrong == nil && now.Before(time.Unix(seconds, 0).Add(-24*time.Hour)) {
		return note(allLabs, found+", which is before the latest commit", "Set the clock.")
	}
	return good(found)
}

func loopback() Finding {
	const remedy = "Let root run: ip link set lo up"
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		return bad(allLabs, err.Error(), remedy)
	}
	defer listener.Close()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	connection, err := dialer.Dial("tcp", listener.Addr().String()) //nolint:noctx // it has a timeout
	if err != nil {
		return bad(allLabs, err.Error(), remedy)
	}
	connection.Close()
	return good("127.0.0.1 answers")
}

// proxy sends a request to the first module proxy. Modules that are in the cache need no proxy.
func proxy(root string) Finding {
	proxies, err := output(root, "go", "env", "GOPROXY")
	if err != nil {
		return note(allLabs, "go does not report where it downloads modules", "Install Go first.")
	}
	first, _, _ := strings.Cut(proxies, ",")
	first, _, _ = strings.Cut(first, "|")
	if !strings.HasPrefix(first, "http") {
		return good(proxies)
	}
	const remedy = "It is not needed once all modules are in Go's cache. Without a network: docs/guides/air-gap.md"
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(
		ctx, http.MethodGet, strings.TrimSuffix(first, "/")+"/golang.org/x/sys/@v/list", nil,
	)
	if err != nil {
		return note(allLabs, "GOPROXY is not a URL", "Run: go env -u GOPROXY")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return note(allLabs, "it does not answer", remedy)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return note(allLabs, "it answers "+response.Status, remedy)
	}
	return good("it answers")
}
