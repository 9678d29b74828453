// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package connectivity

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Child() // Run starts this program
	os.Exit(m.Run())
}

// kubeconfigVariable names the kubeconfig of a cluster with nodes, in which the course's images are loaded.
const kubeconfigVariable = "OPERATOR_LABS_CONNECTIVITY_KUBECONFIG"

func TestClusterNetwork(t *testing.T) {
	kubeconfig := os.Getenv(kubeconfigVariable)
	if kubeconfig == "" {
		t.Skip("set " + kubeconfigVariable + " to try it on a cluster with nodes: " +
			"`make e2e-kind` does that with a cluster of its own")
	}
	var seen []string
	err := Run(t.Context(), Options{Kubeconfig: kubeconfig, Nodes: true}, func(r Result) {
		t.Logf("%+v", r)
		seen = append(seen, r.Feature)
	})
	if err != nil {
		t.Error(err)
	}
	if !slices.Equal(seen, Names()) {
		t.Errorf("features = %q, want %q", seen, Names())
	}
}

func TestUnreachableClusterIsReported(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var results []Result
	err := Run(t.Context(), Options{Kubeconfig: kubeconfig}, func(r Result) { results = append(results, r) })
	if err == nil || len(results) != 1 || results[0].Passed || !strings.Contains(results[0].Problem, "listing the nodes") {
		t.Errorf("results = %+v, error = %v", results, err)
	}
}

func TestUnknownNetworkTestIsAnError(t *testing.T) {
	err := Run(t.Context(), Options{Only: []string{Names()[0], "Pods fly"}}, func(Result) {})
	if err == nil || !strings.Contains(err.Error(), `"Pods fly": the tests are ["Pods reach each other`) {
		t.Errorf("error = %v", err)
	}
}

func TestInterruptedRunEnds(t *testing.T) {
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := Run(ctx, Options{Kubeconfig: "/nowhere"}, func(Result) {}); !errors.Is(err, cause) {
		t.Errorf("error = %v", err)
	}
}

// The real command can't be installed from a module. A script in its place records the arguments.
func TestCiliumCommandRunsIfInstalled(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	if found, err := Network(t.Context(), "/some/kubeconfig", 1, os.Stderr); found || err != nil {
		t.Errorf("Network() without the command = %v, %v", found, err)
	}
	called := filepath.Join(folder, "called")
	script := "#!/bin/sh\necho \"$KUBECONFIG $*\" >>" + called + "\ncase \"$*\" in *single-node) exit 0;; esac\nexit 3\n"
	if err := os.WriteFile(filepath.Join(folder, "cilium"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if found, err := Network(t.Context(), "/some/kubeconfig", 1, os.Stderr); !found || err != nil {
		t.Errorf("Network() with one worker = %v, %v", found, err)
	}
	if found, err := Network(t.Context(), "/some/kubeconfig", 2, os.Stderr); !found || err == nil {
		t.Errorf("Network() with a failing test = %v, %v", found, err)
	}
	content, err := os.ReadFile(called)
	if want := "/some/kubeconfig connectivity test --single-node\n" +
		"/some/kubeconfig connectivity test\n"; err != nil || string(content) != want {
		t.Errorf("the command was called with\n%serror %v, want\n%s", content, err, want)
	}
}

func TestTimeoutErrorRepeatsLastError(t *testing.T) {
	err := eventually(t.Context(), time.Millisecond, "an answer",
		func(context.Context) error { return errors.New("connection refused") })
	if err == nil || err.Error() != "an answer: not within 1ms: connection refused" {
		t.Errorf("error = %v", err)
	}
	if _, skipped := errors.AsType[*skipError](eventually(t.Context(), time.Hour, "", func(context.Context) error {
		return &skipError{"it can't be tried here"}
	})); !skipped {
		t.Error("eventually() retries a feature that can't be tested")
	}
}
