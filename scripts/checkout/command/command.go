// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
)

// Runner runs programs in one scope, so that none of them outlives the command that started it.
type Runner struct {
	scope *process.Scope
}

// NewRunner returns a runner. Its Close ends the programs that still run, and removes the runner's folder.
func NewRunner() (*Runner, error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return nil, err
	}
	return &Runner{scope: scope}, nil
}

// Close ends the programs that still run, and removes the runner's folder.
func (r *Runner) Close() error { return r.scope.Close() }

// Dir returns a folder for temporary files. It is removed with the runner, no matter how that ends.
func (r *Runner) Dir() string { return r.scope.Dir }

// Error is the error of a program that ran and failed.
type Error struct {
	// Command is the command line, for messages.
	Command string
	// Output is what it printed to both of its streams.
	Output string
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v\n%s", e.Command, e.Err, strings.TrimSpace(e.Output))
}

func (e *Error) Unwrap() error { return e.Err }

// Run runs a program in a folder and returns its standard output. The environment is gobuild.Environment and the given
// variables. If the program fails, the error is an *Error, which also has the output of programs that answer by exit
// code.
func (r *Runner) Run(
	ctx context.Context, dir string, variables []string, program string, args ...string,
) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is needed and not on PATH: install it: %w", program, err)
	}
	var stdout, stderr strings.Builder
	started, err := r.scope.Start(process.Spec{
		Path: path, Args: args, Dir: dir, Stdout: &stdout, Stderr: &stderr,
		// Temporary files of the go command are in the runner's folder, which is removed with the runner, however that ends.
		Env: append(append(gobuild.Environment(), "GOTMPDIR="+r.scope.Dir), variables...),
	})
	if err != nil {
		return "", err
	}
	select {
	case <-started.Done():
	case <-ctx.Done():
		started.Kill()
		return "", fmt.Errorf("%s %s: %w", filepath.Base(program), strings.Join(args, " "), context.Cause(ctx))
	}
	if err := started.Err(); err != nil {
		line := strings.Join(append([]string{filepath.Base(program)}, args...), " ")
		return stdout.String(), &Error{Command: line, Output: stdout.String() + stderr.String(), Err: err}
	}
	return stdout.String(), nil
}

// Output returns what a failed program printed, and false if the error is of another kind, for example because the
// program could not be started.
func Output(err error) (string, bool) {
	var failed *Error
	if !errors.As(err, &failed) {
		return "", false
	}
	return failed.Output, true
}
