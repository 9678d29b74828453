// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/submission"
)

// FetchModules downloads the modules that a lab or a solution of this checkout needs, unless they are cached. For other
// folders it does nothing, because nothing is downloaded for them without a request. system has the meaning of
// submission.Builder.
func FetchModules(ctx context.Context, repo *checkout.Checkout, dir, system string) error {
	lab := repo.LabOf(dir)
	if lab == nil {
		return nil
	}
	return submission.FetchMissing(ctx, "lab "+lab.Name, &submission.Builder{
		Submission: &submission.Submission{Dir: dir}, System: system,
	})
}

// KubectlEnvironment points kubectl at the playground, in an environment. kubectl must not cache the list of kinds,
// because in a lab it changes from one command to the next.
func KubectlEnvironment(repo *checkout.Checkout, have []string) []string {
	environment := slices.DeleteFunc(have, func(variable string) bool {
		return strings.HasPrefix(variable, "KUBECONFIG=") || strings.HasPrefix(variable, "KUBECACHEDIR=")
	})
	return append(environment, "KUBECONFIG="+repo.Playground().Kubeconfig(), "KUBECACHEDIR="+os.DevNull)
}

// KubectlNeedsNoCluster reports whether a call of kubectl works without a cluster: it asks for help.
func KubectlNeedsNoCluster(args []string) bool {
	return len(args) == 0 || args[0] == "help" || slices.Contains(args, "--help") || slices.Contains(args, "-h")
}

// HelmEnvironment points Helm at the playground, and at a folder of the checkout for its files, in an environment. It
// removes the user's own settings, because those of another cluster do not apply here and charts of the course come
// from no repository.
func HelmEnvironment(repo *checkout.Checkout, have []string) []string {
	environment := slices.DeleteFunc(have, func(variable string) bool {
		return strings.HasPrefix(variable, "KUBECONFIG=") || strings.HasPrefix(variable, "HELM_")
	})
	folder := filepath.Join(repo.Root, ".cache", "helm")
	return append(environment, "KUBECONFIG="+repo.Playground().Kubeconfig(),
		"HELM_CACHE_HOME="+filepath.Join(folder, "cache"), "HELM_CONFIG_HOME="+filepath.Join(folder, "config"),
		"HELM_DATA_HOME="+filepath.Join(folder, "data"))
}

// HelmNeedsNoCluster reports whether a call of helm works without a cluster.
func HelmNeedsNoCluster(args []string) bool {
	return KubectlNeedsNoCluster(args) || slices.Contains([]string{
		"completion", "env", "lint", "package", "pull", "repo", "search", "show", "template", "version",
	}, args[0])
}
