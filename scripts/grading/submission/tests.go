// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/scripts/grading/limited"
)

// CompileTests compiles the tests of a package into a program. The package's folder is slash-separated and relative to
// the module's root. edit allows the go command to complete go.mod and go.sum from modules that are on this machine.
// Set it only for a copy of the submission. An error of the code is a *Problem, and an error of the machine is a
// *EnvironmentError.
func (b *Builder) CompileTests(ctx context.Context, folder, program string, edit bool) error {
	args := append([]string{"test", "-c", "-vet=off"}, gobuild.Flags...)
	args = append(args, "-ldflags=-s -w", "-o", program)
	environment := offline()
	if edit {
		args = append(args, "-mod=mod")
		environment = append(environment, "GOSUMDB=off")
	}
	output, err := b.tool(ctx, tool{
		path:        "go",
		args:        append(args, inModule(folder)),
		environment: environment,
		timeout:     buildTimeout,
		write:       []string{filepath.Dir(program)},
	})
	return problem(err, output, "the tests do not compile",
		fmt.Sprintf("compiling the tests took longer than %s", buildTimeout))
}

// TestEnvironment returns the environment of a test program. The only variable of the user's environment is PATH.
// assets is the folder in which envtest finds etcd and kube-apiserver, and home an empty folder of the run.
func TestEnvironment(assets, home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home,
		"KUBECONFIG=" + filepath.Join(home, "none"), "KUBEBUILDER_ASSETS=" + assets,
		// Two test programs may start their API servers at once, while others compile. The default of 20 s is for an idle
		// machine.
		"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=60s",
	}
}

// TestDependencies returns the packages that the tests of a package are compiled from, including the package itself.
func (b *Builder) TestDependencies(ctx context.Context, folder string) ([]string, error) {
	packages := limited.NewOutput(outputLimit)
	args := []string{
		"list", "-test", "-deps", "-f", "{{with .ForTest}}{{.}}{{else}}{{.ImportPath}}{{end}}", inModule(folder),
	}
	output, err := b.tool(ctx, tool{
		path:        "go",
		args:        args,
		environment: offline(),
		timeout:     buildTimeout,
		stdout:      packages,
	})
	if err := problem(err, output, "the packages that the tests import can't be listed",
		"listing the packages of the tests took too long"); err != nil {
		return nil, err
	}
	return strings.Fields(packages.String()), nil
}
