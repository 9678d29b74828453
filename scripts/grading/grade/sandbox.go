// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/submission"
)

// Sandbox defines whether the programs that a submission runs on this machine are sandboxed. Its Pods run in
// containers in any case.
type Sandbox string

const (
	// SandboxAuto builds the walls that this machine can build. The report names them.
	SandboxAuto Sandbox = ""
	// SandboxRequired refuses to grade if a wall is missing that keeps a submission from reading or reaching what is not
	// its own.
	SandboxRequired Sandbox = "required"
	// SandboxOff builds no walls.
	SandboxOff Sandbox = "off"
)

// Set implements pflag.Value. It sets the mode by its name.
func (s *Sandbox) Set(name string) error {
	switch name {
	case "auto":
		*s = SandboxAuto
	case string(SandboxRequired), string(SandboxOff):
		*s = Sandbox(name)
	default:
		return errors.New("must be auto, required or off")
	}
	return nil
}

func (s *Sandbox) String() string { return cmp.Or(string(*s), "auto") }

// Type names the value in a command's help.
func (*Sandbox) Type() string { return "sandbox" }

// MissingWallsError lists the walls that SandboxRequired needs and that this machine can't build.
type MissingWallsError struct{ Walls []string }

func (e *MissingWallsError) Error() string {
	return fmt.Sprintf("this machine cannot sandbox a submission, as --sandbox=required demands: "+
		"there is no wall for %s. "+
		"Grade on Linux 6.7 or newer with Landlock (`cat /sys/kernel/security/lsm` lists it), "+
		"or on a disposable machine with --sandbox=off", english.WordSeries(e.Walls, "and"))
}

// TrySandbox runs a program of the system in the sandbox, and returns the walls that it had. The error is a
// *MissingWallsError if required walls are missing.
func TrySandbox(ctx context.Context, scope *process.Scope) ([]string, error) {
	tried, err := scope.Start(process.Spec{
		Path: "/bin/sh", Args: []string{"-c", "exit 0"}, Env: []string{},
		Contained: true, Walls: (&submission.Builder{Walled: true}).Walls(nil, nil),
	})
	if err != nil {
		return nil, fmt.Errorf("trying the sandbox: %w", err)
	}
	if err := tried.Wait(ctx); err != nil {
		return nil, fmt.Errorf("trying the sandbox: %w", err)
	}
	built := names(scope.Walls())
	missing := slices.DeleteFunc(names(submission.RequiredWalls()), func(wall string) bool {
		return slices.Contains(built, wall)
	})
	if len(missing) > 0 {
		return built, &MissingWallsError{missing}
	}
	return built, nil
}

func names(walls []process.Wall) (all []string) {
	for _, wall := range walls {
		all = append(all, string(wall))
	}
	return all
}
