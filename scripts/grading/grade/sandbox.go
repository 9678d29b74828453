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

// Sandbox says whether what a submission runs on this machine is shut in. Pods of it run in containers in any case.
type Sandbox string

const (
	// SandboxAuto builds the walls that this machine can build. The report names them.
	SandboxAuto Sandbox = ""
	// SandboxRequired refuses to grade where a wall is missing without which a submission could read or reach what is not
	// its own.
	SandboxRequired Sandbox = "required"
	// SandboxOff builds none.
	SandboxOff Sandbox = "off"
)

// Set chooses one by its name, as a flag does.
func (s *Sandbox) Set(name string) error {
	switch name {
	case "auto":
		*s = SandboxAuto
	case string(SandboxRequired), string(SandboxOff):
		*s = Sandbox(name)
	default:
		return errors.New("it is auto, required or off")
	}
	return nil
}

func (s *Sandbox) String() string { return cmp.Or(string(*s), "auto") }

// Type is what help calls the value.
func (*Sandbox) Type() string { return "sandbox" }

// MissingWallsError says which walls a machine can't build that SandboxRequired asks for.
type MissingWallsError struct{ Walls []string }

func (e *MissingWallsError) Error() string {
	return fmt.Sprintf("this machine cannot shut a submission in, and --sandbox=required asks for it: there is no wall for %s. "+
		"Grade on Linux 6.7 or newer with Landlock (`cat /sys/kernel/security/lsm` names it), "+
		"or in a machine that you throw away with --sandbox=off", english.WordSeries(e.Walls, "and"))
}

// TrySandbox shuts in a program of the system, and names the walls that it had. A *MissingWallsError says that others
// are missing.
func TrySandbox(ctx context.Context, scope *process.Scope) ([]string, error) {
	tried, err := scope.Start(process.Spec{
		Path: "/bin/sh", Args: []string{"-c", "exit 0"}, Env: []string{},
		Contained: true, Walls: (&submission.Workshop{Walled: true}).Walls(nil, nil),
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
