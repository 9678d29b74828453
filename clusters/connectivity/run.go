// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package connectivity

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lva.io/operators/clusters/process"
)

// Image is the catalogue's image with the test's client and server.
const Image = "operator-labs/probe:v1"

// variable is the environment variable that makes a program that calls Child run the test. Its value holds the Options.
const variable = "OPERATOR_LABS_CONNECTIVITY"

// cleanupTime is how long a stopped test may take to remove what it created.
const cleanupTime = 30 * time.Second

// Options configure a run.
type Options struct {
	// Kubeconfig is the file of an administrator's kubeconfig.
	Kubeconfig string
	// Image is the image of the test's Pods. Default: Image.
	Image string
	// Nodes reports that this machine can reach the nodes' addresses, as it can with kind on Linux. NodePorts are then
	// tested from here, otherwise from a Pod on another node.
	Nodes bool
	// Only are the names of the features to run. Default: all.
	Only []string
}

// Result is the outcome of one feature.
type Result struct {
	Feature string
	// At most one of Passed and Skipped is set. If neither is, the feature failed.
	Passed, Skipped bool
	// Problem is the reason of a failure or a skip.
	Problem string
	Took    time.Duration
}

// Run runs the features one after the other and calls report as each one ends. The error names the features that
// failed. The program's main must call Child.
func Run(ctx context.Context, options Options, report func(Result)) error {
	for _, name := range options.Only {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("unknown network test %q: the tests are %q", name, Names())
		}
	}
	configuration, err := json.Marshal(options)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program to start the network tests: %w", err)
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer scope.Close()
	results, resultsWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer results.Close()
	messages := &tail{}
	p, err := scope.Start(process.Spec{
		Name: "connectivity", Path: program, Args: []string{"connectivity"},
		Env: append(os.Environ(), variable+"="+string(configuration)), Stdout: resultsWrite, Stderr: messages,
	})
	resultsWrite.Close()
	if err != nil {
		return fmt.Errorf("starting the network tests: %w", err)
	}
	// A stopped test still removes what it created.
	stop := context.AfterFunc(ctx, func() { p.Stop(cleanupTime) })
	defer stop()

	var failed []string
	ended := false
	for lines := bufio.NewScanner(results); lines.Scan(); {
		var line event
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			messages.add(lines.Text()) // the output of the testing package itself
			continue
		}
		if line.Result == nil {
			ended = true
			continue
		}
		report(*line.Result)
		if !line.Passed && !line.Skipped {
			failed = append(failed, line.Feature)
		}
	}
	<-p.Done()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("testing the network: %w", context.Cause(ctx))
	case len(failed) > 0:
		return fmt.Errorf("network tests failed: %s", strings.Join(failed, "; "))
	case !ended || p.Err() != nil:
		return fmt.Errorf("the network tests ended early: %w\n%s", errors.Join(p.Err()), messages)
	}
	return nil
}

// event is a line that the child writes. It holds a result, except for the last line.
type event struct {
	*Result `json:",omitempty"`
}

// Child returns at once, unless Run started this process. Then it runs the test, and does not return.
func Child() {
	configuration, found := os.LookupEnv(variable)
	if !found {
		return
	}
	var options Options
	if err := json.Unmarshal([]byte(configuration), &options); err != nil {
		fmt.Fprintln(os.Stderr, variable+":", err)
		os.Exit(2)
	}
	os.Args = []string{os.Args[0]}
	test := func(t *testing.T) {
		t.Helper()
		written := json.NewEncoder(os.Stdout)
		run(t, options, func(result Result) { _ = written.Encode(event{&result}) })
		_ = written.Encode(event{})
	}
	testing.Main(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "Connectivity", F: test}}, nil, nil)
}

// Network runs `cilium connectivity test` if that command is on PATH, with its output to out, and reports whether the
// command was found. With one worker it passes an option for that, because the command would otherwise wait for a
// second worker.
func Network(ctx context.Context, kubeconfig string, workers int, out *os.File) (found bool, err error) {
	cilium, err := exec.LookPath("cilium")
	if err != nil {
		return false, nil // the command is optional
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return true, err
	}
	defer scope.Close()
	args := []string{"connectivity", "test"}
	if workers < 2 {
		args = append(args, "--single-node")
	}
	p, err := scope.Start(process.Spec{
		Name: "cilium", Path: cilium, Args: args,
		Env: append(os.Environ(), "KUBECONFIG="+kubeconfig), Stdout: out, Stderr: out,
	})
	if err != nil {
		return true, fmt.Errorf("starting cilium connectivity test: %w", err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return true, fmt.Errorf("cilium connectivity test: %w", context.Cause(ctx))
	}
	if p.Err() != nil {
		return true, fmt.Errorf("cilium connectivity test failed: %w", p.Err())
	}
	return true, nil
}

// tail keeps the last lines of a process's output.
type tail struct {
	lock sync.Mutex
	text []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

func (t *tail) add(line string) { _, _ = t.Write([]byte(line + "\n")) }

func (t *tail) String() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return strings.TrimSpace(string(t.text))
}
