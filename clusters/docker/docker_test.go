// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNodesAreListedControlPlanesFirst(t *testing.T) {
	t.Parallel()
	nodes := parseContainers("a-worker2\tworker\tUp 3 minutes\n" +
		"a-external-load-balancer\texternal-load-balancer\tUp 3 minutes\n" +
		"a-worker\tworker\tExited (137) 2 minutes ago\n" +
		"a-control-plane\tcontrol-plane\tUp 3 minutes\n\n")
	var names []string
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	if want := []string{"a-control-plane", "a-worker", "a-worker2"}; !slices.Equal(names, want) {
		t.Errorf("nodes = %v, want %v", names, want)
	}
	if nodes[1].Running || !nodes[2].Running {
		t.Error("wrong nodes are reported as running")
	}
}

func TestGatewayIsAnIPv4Address(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		`[{"Subnet":"fc00:f853:ccd:e793::/64"},{"Subnet":"172.18.0.0/16","Gateway":"172.18.0.1"}]`: "172.18.0.1",
		`[{"Subnet":"172.19.0.0/16"}]`:                                             "172.19.0.1",
		`[{"Subnet":"fc00:f853:ccd:e793::/64","Gateway":"fc00:f853:ccd:e793::1"}]`: "",
		`[]`:   "",
		`null`: "",
	} {
		got, err := parseGateway(output)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", output, got, err, want)
		}
	}
}

func TestImageIDsAreByReference(t *testing.T) {
	t.Parallel()
	ids, err := parseImageIDs([]byte(`{"images":[{"id":"sha256:12",` +
		`"repoTags":["docker.io/operator-labs/probe:v1"],` +
		`"repoDigests":["docker.io/operator-labs/probe@sha256:34"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if ids[Canonical("operator-labs/probe:v1")] != "sha256:12" {
		t.Errorf("image IDs = %v", ids)
	}
}

func TestReferencesAreNormalizedLikeContainerd(t *testing.T) {
	t.Parallel()
	for reference, want := range map[string]string{
		"busybox:1":                      "docker.io/library/busybox:1",
		"operator-labs/probe:v1":         "docker.io/operator-labs/probe:v1",
		"quay.io/cilium/cilium:v1.20.2":  "quay.io/cilium/cilium:v1.20.2",
		"localhost/a:1":                  "localhost/a:1",
		"localhost:5000/a:1":             "localhost:5000/a:1",
		"docker.io/kindest/node:v1.36.4": "docker.io/kindest/node:v1.36.4",
		"registry.k8s.io/pause:3.10.2":   "registry.k8s.io/pause:3.10.2",
	} {
		if got := Canonical(reference); got != want {
			t.Errorf("Canonical(%s) = %s, want %s", reference, got, want)
		}
	}
}

func TestMissingDockerIsReported(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Nodes(t.Context(), "any")
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "apt-get install docker.io") {
		t.Errorf("error = %v", err)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	folder := t.TempDir()
	const hangs = "#!/bin/sh\necho here\ntrap '' TERM\nexec 2>&-\nwhile :; do sleep 0.1; done\n"
	if err := os.WriteFile(filepath.Join(folder, "docker"), []byte(hangs), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Follow(ctx, "node", "/file", writer) }()
	if _, err := reader.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * patience):
		t.Error("Follow still runs")
	}
}

func TestUnreachableEngineErrors(t *testing.T) {
	t.Parallel()
	for stderr, want := range map[string]error{
		"permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock": ErrForbidden,
		"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?":    ErrNoEngine,
		"Error: No such container: a": nil,
	} {
		err := &Error{Args: []string{"ps"}, Stderr: stderr, Err: errors.New("exit status 1"), Reason: reason(stderr)}
		if want != nil && (!errors.Is(err, want) || err.Error() != want.Error()) {
			t.Errorf("reason(%q) = %v, want %v", stderr, err, want)
		}
		if want == nil && !strings.Contains(err.Error(), stderr) {
			t.Errorf("%q is not in %q", stderr, err)
		}
	}
}
