// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cli runs the commands of this repository: it handles signals, prints errors, chooses the exit code, checks
// arguments and flags, and prints paths as a user would type them.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/process"
)

// ErrReported ends a command that has already printed what is wrong, such as a verdict or a list of problems.
var ErrReported = errors.New("already reported")

// CodeError ends a command with an exit code of its own.
type CodeError struct {
	Err error
	// Code is at least 2, because 1 is the exit code of all other errors.
	Code int
}

func (e *CodeError) Error() string { return e.Err.Error() }

// Unwrap returns the error without its code.
func (e *CodeError) Unwrap() error { return e.Err }

// Main runs a command until it ends, or until a signal cancels its context. If it fails, Main prints the error to
// standard error after the command's name. The program then exits with 1, or with the code of a CodeError.
func Main(root *cobra.Command) {
	if os.Getenv("MAKELEVEL") != "" {
		// make does not end its recipes when it is killed.
		process.EndWithParent()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// After the first signal everything is being ended. A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	if code := Run(ctx, root); code != 0 {
		stop()
		os.Exit(code)
	}
}

// Run runs a command until it ends, and returns its exit code. If the command fails, Run prints the error to standard
// error after the command's name, and returns 1 or the code of a CodeError.
func Run(ctx context.Context, root *cobra.Command) (code int) {
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if !errors.Is(err, ErrReported) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", root.Name(), err)
	}
	if own, ok := errors.AsType[*CodeError](err); ok {
		return own.Code
	}
	return 1
}
