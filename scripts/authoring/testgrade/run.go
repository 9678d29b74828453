// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package testgrade

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/submission"
)

const (
	// outputLimit is how much of the output of a test program is kept, in bytes.
	outputLimit = 256 << 10
	// lastLines is how many of its last lines are shown.
	lastLines = 25
)

// program is a compiled test program.
type program struct {
	path string
	// module is the folder of the module that it tests, which it may read. dir is the working folder below it.
	module, dir string
	// limit is its time limit.
	limit time.Duration
	// toFirst ends the program as soon as a test has failed.
	toFirst bool
}

// verdict is the result of a test program.
type verdict struct {
	report.TestRun
	// by is the first test that failed, or another reason why the program failed.
	by string
	// noAPIServer reports that the API server did not start. If it starts on the solution, this is not the test's fault.
	noAPIServer bool
}

// runWalled calls run with the sandbox of the grading.
func (g *grading) runWalled(ctx context.Context, p program) (v verdict, err error) {
	walls, err := g.walls(p)
	if err != nil {
		return v, err
	}
	return run(ctx, g.scope, g.Assets, p, walls)
}

// walls returns the sandbox of a test program. The program may read its module and the programs of an API server, which
// it starts in a network of its own.
func (g *grading) walls(p program) (*process.Walls, error) {
	if !g.Walled {
		return nil, nil
	}
	read := []string{p.module, g.Assets}
	assets, err := os.ReadDir(g.Assets)
	if err != nil {
		return nil, fmt.Errorf("listing the programs that tests start: %w", err)
	}
	for _, asset := range assets { // these are links to programs in other folders
		target, err := filepath.EvalSymlinks(filepath.Join(g.Assets, asset.Name()))
		if err != nil {
			return nil, fmt.Errorf("checking a program that tests start: %w", err)
		}
		read = append(read, target)
	}
	walls := (&submission.Builder{Walled: true, Strict: g.Strict}).Walls(read, nil)
	walls.OwnNetwork = true
	return walls, nil
}

// run runs a test program to its end, together with the processes that it started. The error is the context's or the
// machine's.
func run(
	ctx context.Context, scope *process.Scope, assets string, p program, walls *process.Walls,
) (v verdict, err error) {
	home, err := os.MkdirTemp(scope.Dir, "home-")
	if err != nil {
		return v, fmt.Errorf("creating a folder for a test program: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	if walls != nil {
		walls.Write = append(walls.Write, home)
	}
	failed := make(chan struct{})
	out := &testOutput{failed: sync.OnceFunc(func() { close(failed) })}
	if !p.toFirst {
		out.failed = func() {}
	}
	// All programs get the same flags. Otherwise a test could recognize a mutant by them.
	args := []string{"-test.v", "-test.timeout=" + rightLimit.String()}
	started := time.Now()
	running, err := scope.Start(process.Spec{
		Name: "the tests", Path: p.path, Args: args, Dir: p.dir,
		Env: submission.TestEnvironment(assets, home), Stdout: out, Stderr: out, Contained: true,
		Walls: walls,
	})
	if err != nil {
		return v, err
	}
	// The program usually ends itself at its limit on a correct operator.
	limit := time.NewTimer(p.limit + graceAfterLimit)
	defer limit.Stop()
	select {
	case <-running.Done():
		err = running.Err()
	case <-failed:
		running.Kill()
		err = errFailed
	case <-limit.C:
		running.Kill()
		err = fmt.Errorf("it ran longer than %s", p.limit)
	case <-ctx.Done():
		running.Kill()
		return v, context.Cause(ctx)
	}
	v = out.verdict()
	v.Seconds = time.Since(started).Seconds()
	v.Passed = err == nil && len(v.Failed) == 0
	if !v.Passed {
		v.by = cmp.Or(v.by, out.panicked(), fmt.Sprintf("the test program: %v", err))
	}
	return v, nil
}

// graceAfterLimit is how long a test program may take to end itself.
const graceAfterLimit = 5 * time.Second

var errFailed = errors.New("a test has failed")

// testOutput reads the output of a test program.
type testOutput struct {
	failed func() // as soon as a test has failed

	mutex   sync.Mutex
	content bytes.Buffer // its beginning and its end, up to the limit
	line    []byte
	v       verdict
}

// result matches the line of `go test -v` about the end of a top-level test.
var result = regexp.MustCompile(`^--- (FAIL|PASS|SKIP): (\S+) \(`)

// unstarted matches the message of envtest when etcd or kube-apiserver did not start.
var unstarted = regexp.MustCompile(`unable to start (the )?control plane|` +
	`timeout waiting for process (etcd|kube-apiserver) to start|address already in use`)

func (o *testOutput) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.content.Len()+len(p) > outputLimit {
		o.content.Next(len(p) + outputLimit/2) // the end is more useful than the beginning
	}
	o.content.Write(p[max(0, len(p)-outputLimit/2):])
	o.line = append(o.line, p...)
	for {
		line, rest, ended := bytes.Cut(o.line, []byte("\n"))
		if !ended {
			if len(o.line) > outputLimit {
				o.line = nil
			}
			return len(p), nil
		}
		o.line = rest
		o.note(line)
	}
}

func (o *testOutput) note(line []byte) {
	if unstarted.Match(line) {
		o.v.noAPIServer = true
	}
	found := result.FindSubmatch(line)
	if found == nil {
		return
	}
	name := string(found[2])
	o.v.Tests++
	switch string(found[1]) {
	case "SKIP":
		o.v.Skipped++
	case "FAIL":
		o.v.Failed = append(o.v.Failed, name)
		o.v.by = cmp.Or(o.v.by, name)
		o.failed()
	}
}

func (o *testOutput) verdict() verdict {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	v := o.v
	lines := strings.Split(strings.TrimSpace(o.content.String()), "\n")
	v.Output = lines[max(0, len(lines)-lastLines):]
	return v
}

// panicked returns the line with the reason why the program ended itself. It is empty if there is none.
func (o *testOutput) panicked() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for line := range strings.Lines(o.content.String()) {
		if strings.HasPrefix(line, "panic: ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// removeSources removes the source code of a compiled module. A test must judge what the code does, not how it is
// written.
func removeSources(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		return os.Remove(path)
	})
}
