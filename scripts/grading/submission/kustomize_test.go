// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"lva.io/operators/scripts/checkout"
)

// A kustomization may have references that layOutKustomizations does not detect. kustomize then tries to download them,
// and reaches no server.
func TestKustomizeReachesNoNetwork(t *testing.T) {
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	// This machine's connections to the network: a proxy, and a git that records its calls.
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "you may not", http.StatusForbidden)
	}))
	defer proxy.Close()
	tools := t.TempDir()
	called := filepath.Join(tools, "called")
	git := "#!/bin/sh\necho git >> " + called + "\nexit 1\n"
	if err := os.WriteFile(filepath.Join(tools, "git"), []byte(git), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")

	// download runs kustomize on a kustomization that names a remote resource, and returns the number of requests to the
	// proxy, whether git was called, and the output.
	download := func(resource string, environment []string) (proxied int32, cloned bool, message string) {
		t.Helper()
		dir := t.TempDir()
		kustomization := "resources: [\"" + resource + "\"]\n"
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
			t.Fatal(err)
		}
		before := asked.Load()
		kustomize := exec.CommandContext(t.Context(), repo.ControlPlane.Path)
		kustomize.Args, kustomize.Env = []string{"kubectl", "kustomize", dir}, environment
		output, err := kustomize.CombinedOutput()
		if err == nil {
			t.Errorf("kustomize built %s without an error: %s", resource, output)
		}
		_, err = os.Stat(called)
		if cloned = err == nil; cloned {
			err = os.Remove(called)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return asked.Load() - before, cloned, string(output)
	}
	for _, test := range []struct {
		resource, message string
	}{
		{"http://operators.invalid/map.yaml", "127.0.0.1:0"},
		{"https://operators.invalid/map.yaml", "127.0.0.1:0"},
		{"github.com/kubernetes-sigs/kustomize//examples/helloWorld", "git"},
		{"git@operators.invalid:shop/base", "git"},
	} {
		if proxied, cloned, message := download(test.resource, os.Environ()); proxied == 0 && !cloned {
			t.Errorf("with this machine's environment, kustomize does not try to download %s: %s", test.resource, message)
		}
		proxied, cloned, message := download(test.resource, kustomizeEnvironment(t.TempDir()))
		if proxied > 0 || cloned || !strings.Contains(message, test.message) {
			t.Errorf("%s: the proxy got %d requests, git was called: %t, message: %s", test.resource, proxied, cloned, message)
		}
	}
}
