// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/scripts/grading/stage/own"
)

// Virtual machines on Apple's computers are linux/arm64. qemu runs such a program on any processor, many times
// slower. Here it runs the control plane, and the grader is a native program of this machine.
func TestSolution01OnArm64(t *testing.T) {
	if os.Getenv("OPERATOR_LABS_ARM64") != "required" {
		t.Skip("it compiles Kubernetes for arm64: make prove PART=arm64")
	}
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Fatalf("qemu-user-static of Debian is needed: %v", err)
	}
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	target := have.ControlPlane.Target
	target.Arch, target.Output = "arm64", filepath.Join(have.Root, ".cache", "arm64", "controlplane", "controlplane")
	if err := target.Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	program := &multicall.Program{Path: filepath.Join(t.TempDir(), "controlplane"), Version: have.ControlPlane.Version}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' '%s' \"$@\"\n", qemu, target.Output)
	if err := os.WriteFile(program.Path, []byte(script), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	options := options(t, "1", have.SolutionDir(&have.Labs.Labs[0]))
	options.Start = own.Start(func(ctx context.Context) (*embedded.Cluster, error) {
		return embedded.StartServer(ctx, program)
	})
	wantFull(t, grade(t.Context(), t, options))
}
