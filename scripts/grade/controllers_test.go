// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/stage"
	"lva.io/operators/scripts/stage/own"
)

// withControllers is a control plane whose controllers are a line of shell.
func withControllers(t *testing.T, line string) stage.Start {
	t.Helper()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	program := &multicall.Program{Path: filepath.Join(t.TempDir(), "controlplane"), Version: have.ControlPlane.Version}
	script := fmt.Sprintf("#!/bin/sh\n[ $1 = kube-controller-manager ] || exec '%s' \"$@\"\n%s\n", have.ControlPlane.Path, line)
	if err := os.WriteFile(program.Path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return own.Start(func(ctx context.Context) (*embedded.Cluster, error) { return embedded.StartServer(ctx, program) })
}

// A run begins while the controllers start. It must not matter how long that takes.
func TestNoLabWithoutPodsWaitsForControllers(t *testing.T) {
	t.Parallel()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	start := withControllers(t, "exec sleep 1000")
	for _, lab := range have.Labs.Labs {
		if lab.NeedsNode(lab.Stage) || lab.Aggregated {
			continue // Deployments wait for them, and the deletion of namespaces while an API server is away
		}
		t.Run(lab.Name, func(t *testing.T) {
			options := options(t, lab.Name, have.SolutionDir(&lab))
			options.Start = start
			if got := grade(t.Context(), t, options); !got.FullMarks() {
				t.Errorf("without controllers the solution has %d of %d points: %s", got.Score, got.MaxScore, got.Reason)
			}
		})
	}
}

func TestARunWhoseControllersEndIsNoGrade(t *testing.T) {
	t.Parallel()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	options := options(t, "2", filepath.Join(have.Root, "solutions", "02-reconciler"))
	options.Start = withControllers(t, "echo 'no memory'; exit 1")
	got := grade(t.Context(), t, options)
	if got.Outcome != report.Error || !strings.Contains(got.Reason, "kube-controller-manager has ended") || !strings.Contains(got.Reason, "no memory") {
		t.Errorf("the run is %s: %s", got.Outcome, got.Reason)
	}
}
