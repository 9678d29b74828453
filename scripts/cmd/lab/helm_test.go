// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"strings"
	"testing"

	"lva.io/operators/clusters/longtest"
)

func TestHelmInstallsChartInPlayground(t *testing.T) {
	longtest.Proof(t)
	t.Setenv("HELM_NAMESPACE", "of-another-cluster")
	root := withPlayground(t)
	chart := run(t, root, "chart", "cert-manager")
	if chart.code != 0 {
		t.Fatal(chart.stderr)
	}
	file := strings.TrimSpace(chart.stdout)
	if shown := wantDone(t, root, "helm", "show", "chart", file); !strings.Contains(shown, "\nversion: v1.") ||
		strings.Contains(shown, "v0.0.0") {
		t.Errorf("the chart lacks its release's version:\n%s", shown)
	}
	// On a machine that can't run Pods, the chart's check of the API can't run either.
	wantDone(t, root, "helm", "upgrade", "--install", "cert-manager", file,
		"--namespace", "cert-manager", "--create-namespace",
		"--set", "crds.enabled=true", "--set", "startupapicheck.enabled=false")
	if output := wantDone(t, root, "helm", "list", "--all-namespaces"); !strings.Contains(output, "deployed") ||
		!strings.Contains(output, "cert-manager-v1.") {
		t.Errorf("helm list printed %s", output)
	}
	wantDone(t, root, "kubectl", "get", "crd", "certificates.cert-manager.io")
}
