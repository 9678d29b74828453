// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/node/nodetest"
)

// pod is a sandbox that a test has started.
type pod struct {
	r      *runtime
	t      *testing.T
	id     string
	config *runtimeapi.PodSandboxConfig
}

func (r *runtime) pod(t *testing.T, change ...func(*runtimeapi.PodSandboxConfig)) *pod {
	t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: strings.ToLower(t.Name()), Namespace: "default", Uid: "u"},
		Hostname:     "the-pod",
		LogDirectory: filepath.Join(r.dir, "log"),
		Labels:       map[string]string{"app": t.Name()},
		DnsConfig: &runtimeapi.DNSConfig{
			Servers:  []string{"10.96.0.10"},
			Searches: []string{"svc.cluster.local"},
			Options:  []string{"ndots:5"},
		},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}
	for _, f := range change {
		f(config)
	}
	created, err := r.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	return &pod{r, t, created.PodSandboxId, config}
}

// create creates a container of the Pod that runs a script with the machine's shell.
func (p *pod) create(name, script string, change ...func(*runtimeapi.ContainerConfig)) string {
	p.t.Helper()
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: image},
		Command: []string{"/bin/sh", "-c", script},
		LogPath: name + ".log", Labels: map[string]string{"name": name},
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: p.config.Linux.SecurityContext.NamespaceOptions,
		}},
	}
	for _, mount := range nodetest.MachinePrograms() {
		config.Mounts = append(config.Mounts, &runtimeapi.Mount{
			HostPath:      mount.Source,
			ContainerPath: mount.Target,
			Readonly:      true,
		})
	}
	for _, f := range change {
		f(config)
	}
	created, err := p.r.CreateContainer(p.t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.id, Config: config, SandboxConfig: p.config,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return created.ContainerId
}

// start creates a container and starts it.
func (p *pod) start(name, script string, change ...func(*runtimeapi.ContainerConfig)) string {
	p.t.Helper()
	id := p.create(name, script, change...)
	if _, err := p.r.StartContainer(p.t.Context(), &runtimeapi.StartContainerRequest{ContainerId: id}); err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (r *runtime) status(t *testing.T, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	s, err := r.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		t.Fatal(err)
	}
	return s.Status
}

// await waits until a container is in a state.
func (r *runtime) await(t *testing.T, id string, state runtimeapi.ContainerState) *runtimeapi.ContainerStatus {
	t.Helper()
	return until(t, state.String(), func() (*runtimeapi.ContainerStatus, bool) {
		s := r.status(t, id)
		return s, s.State == state
	})
}

// until calls ask until it returns true.
func until[T any](t *testing.T, what string, ask func() (T, bool)) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-tick.C:
			if answer, yes := ask(); yes {
				return answer
			}
		case <-ctx.Done():
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// ends runs a script as a container, and returns its output and the container's status.
func (p *pod) ends(
	name, script string, change ...func(*runtimeapi.ContainerConfig),
) (output string, status *runtimeapi.ContainerStatus) {
	p.t.Helper()
	id := p.start(name, script, change...)
	status = p.r.await(p.t, id, runtimeapi.ContainerState_CONTAINER_EXITED)
	return p.logText(name), status
}

// logText returns the text of a container's log.
func (p *pod) logText(name string) string {
	p.t.Helper()
	content, err := os.ReadFile(filepath.Join(p.config.LogDirectory, name+".log"))
	if err != nil {
		p.t.Fatal(err)
	}
	var text strings.Builder
	for line := range strings.Lines(string(content)) {
		_, rest, _ := strings.Cut(line, " ")
		_, rest, _ = strings.Cut(rest, " ")
		_, rest, _ = strings.Cut(rest, " ")
		text.WriteString(rest)
	}
	return strings.TrimSpace(text.String())
}

// exec runs a script in a container.
func (r *runtime) exec(t *testing.T, id, script string) (string, int32) {
	t.Helper()
	done, err := r.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{
		ContainerId: id,
		Cmd:         []string{"/bin/sh", "-c", script},
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(done.Stdout) + string(done.Stderr)), done.ExitCode
}

func TestPodHasAddressHostnameAndDNS(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t)
	s, err := r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	if err != nil || s.Status.State != runtimeapi.PodSandboxState_SANDBOX_READY {
		t.Fatalf("PodSandboxStatus() = %v, %v; want it ready", s, err)
	}
	output, _ := p.ends("c", `hostname; cat /etc/hostname; cat /etc/resolv.conf; cat /proc/net/fib_trie`)
	if want := "the-pod\nthe-pod\nnameserver 10.96.0.10\n" +
		"search svc.cluster.local\noptions ndots:5\n"; !strings.HasPrefix(output, want) {
		t.Errorf("got output %q, want it to begin with %q", output, want)
	}
	if !strings.Contains(output, s.Status.Network.Ip) {
		t.Errorf("the container does not have the sandbox's address %q", s.Status.Network.Ip)
	}
}

func TestContainersOfAPodShareNamespaces(t *testing.T) {
	r := newRuntime(t)
	p, other := r.pod(t), r.pod(t, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name = "other" })
	script := `readlink /proc/self/ns/net /proc/self/ns/ipc /proc/self/ns/uts`
	one, _ := p.ends("one", script)
	two, _ := p.ends("two", script)
	three, _ := other.ends("three", script)
	if one != two || one == three {
		t.Errorf("containers have the namespaces %q and %q, want them equal, and unlike another Pod's %q", one, two, three)
	}
}

func TestPodSharesNodePIDNamespace(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t, func(c *runtimeapi.PodSandboxConfig) {
		c.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_NODE
	})
	output, _ := p.ends("node", `test -d /proc/1 && cat /proc/1/comm`)
	if strings.Contains(output, "sh") {
		t.Errorf("the first process is %q, want the node's", output)
	}
}

func TestHostNetworkPodSharesNodeNetwork(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t, func(c *runtimeapi.PodSandboxConfig) {
		c.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	})
	output, _ := p.ends("c", `readlink /proc/self/ns/net`)
	if own, err := os.Readlink("/proc/self/ns/net"); err != nil || output != own {
		t.Errorf("network namespace = %q, want the node's %q, %v", output, own, err)
	}
	s, err := r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	if err != nil || s.Status.Network.Ip != "" {
		t.Errorf("reported address = %q, %v; want none", s.Status.Network.Ip, err)
	}
}

func TestListsAreFiltered(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t)
	running, _ := p.start("running", "exec sleep 1000"), p.create("created", "true")
	list := func(filter *runtimeapi.ContainerFilter) (names []string) {
		all, err := r.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: filter})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all.Containers {
			names = append(names, c.Metadata.Name)
		}
		slices.Sort(names)
		return names
	}
	for name, test := range map[string]struct {
		filter *runtimeapi.ContainerFilter
		want   []string
	}{
		"all": {nil, []string{"created", "running"}},
		"state": {&runtimeapi.ContainerFilter{
			State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		}, []string{"running"}},
		"label":   {&runtimeapi.ContainerFilter{LabelSelector: map[string]string{"name": "created"}}, []string{"created"}},
		"id":      {&runtimeapi.ContainerFilter{Id: running[:12]}, []string{"running"}},
		"sandbox": {&runtimeapi.ContainerFilter{PodSandboxId: "other"}, nil},
	} {
		if got := list(test.filter); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestMissingObjectsAreNotFoundButRemovable(t *testing.T) {
	r := newRuntime(t)
	if _, err := r.ContainerStatus(t.Context(),
		&runtimeapi.ContainerStatusRequest{ContainerId: "nosuch"}); status.Code(err) != codes.NotFound {
		t.Errorf("ContainerStatus() error = %v, want NotFound", err)
	}
	if _, err := r.PodSandboxStatus(t.Context(),
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: "nosuch"}); status.Code(err) != codes.NotFound {
		t.Errorf("PodSandboxStatus() error = %v, want NotFound", err)
	}
	_, err1 := r.RemoveContainer(t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: "nosuch"})
	_, err2 := r.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: "nosuch"})
	_, err3 := r.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: "nosuch"})
	_, err4 := r.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: "nosuch"})
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestContainersSurviveServerRestart(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t, func(c *runtimeapi.PodSandboxConfig) {
		c.PortMappings = []*runtimeapi.PortMapping{{HostPort: 80, ContainerPort: 8080}}
	})
	wantPublished := func(when string) {
		t.Helper()
		if got, want := r.network.published[p.id], p.config.Metadata.Name+" 80->8080"; got != want {
			t.Errorf("%s, published port = %q, want %q", when, got, want)
		}
	}
	wantPublished("at first")
	survivor := p.start("on", `while true; do echo tick; sleep 0.01; done`)
	ends := p.start("ends", `while ! test -e /stop; do sleep 0.01; done; exit 6`)
	over := p.start("over", `exit 2`)
	r.await(t, over, runtimeapi.ContainerState_CONTAINER_EXITED)
	before := r.status(t, survivor)

	parts, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	r.end()
	lines := strings.Count(p.logText("on"), "tick")
	clear(r.network.published)
	r.serve(t, parts)
	wantPublished("afterwards")

	if after := r.status(t, survivor); after.State != runtimeapi.ContainerState_CONTAINER_RUNNING ||
		after.StartedAt != before.StartedAt {
		t.Errorf("the running container has status %v", after)
	}
	until(t, "more lines", func() (struct{}, bool) { return struct{}{}, strings.Count(p.logText("on"), "tick") > lines })
	if s := r.status(t, over); s.State != runtimeapi.ContainerState_CONTAINER_EXITED || s.ExitCode != 2 {
		t.Errorf("the container that exited before has status %v, want exit code 2", s)
	}
	r.exec(t, ends, "touch /stop") // this fails if the container ends first
	if s := r.await(t, ends, runtimeapi.ContainerState_CONTAINER_EXITED); s.ExitCode != 6 {
		t.Errorf("the container that exited later has status %v, want exit code 6", s)
	}
	s, err := r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	if err != nil || s.Status.State != runtimeapi.PodSandboxState_SANDBOX_READY || s.Status.Network.Ip == "" {
		t.Errorf("PodSandboxStatus() = %v, %v; want it ready, with an address", s, err)
	}
}

// The server was killed while it was creating a Pod. Its records do not have the Pod, but the packages that created its
// parts do.
func TestUnrecordedPodIsRemoved(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t)
	kept := p.start("kept", "exec sleep 1000")
	unrecorded := r.pod(t, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name = "unrecorded" })
	lost := unrecorded.start("lost", "exec sleep 1000")
	parts, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	r.end()
	for _, record := range []string{"sandboxes/" + unrecorded.id, "containers/" + lost} {
		if err := os.Remove(filepath.Join(r.dir, "state", record)); err != nil {
			t.Fatal(err)
		}
	}
	r.serve(t, parts)
	if s := r.status(t, kept); s.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the recorded container has status %v, want it running", s)
	}
	states, err := parts.keeper.List(t.Context())
	if err != nil || len(states) != 1 || states[0].ID != kept {
		t.Errorf("keeper.List() = %v, %v; want only the recorded container", states, err)
	}
	if left := r.network.Attached(); len(left) != 1 || left[0] != p.id {
		t.Errorf("sandboxes with a network = %v, want only the recorded one", left)
	}
	for folder, want := range map[string]string{"state/namespaces": p.id, "containers": kept} {
		entries, err := os.ReadDir(filepath.Join(r.dir, folder))
		if err != nil || len(entries) != 1 || entries[0].Name() != want {
			t.Errorf("folder %s contains %v, %v; want only the recorded entry", folder, entries, err)
		}
	}
}

// The kubelet repeats a stop that failed, and the repetition must not leave out anything.
func TestFailedStopIsContinued(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t)
	r.network.detachErr = errors.New("the kernel is busy")
	request := &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id}
	if _, err := r.StopPodSandbox(t.Context(), request); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("the first StopPodSandbox() error = %v", err)
	}
	if _, err := r.StopPodSandbox(t.Context(), request); err != nil {
		t.Error(err)
	}
	if left := r.network.Attached(); len(left) > 0 {
		t.Errorf("these sandboxes still have a network: %v", left)
	}
	s, err := r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	if err != nil || s.Status.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("PodSandboxStatus() = %v, %v; want it not ready", s, err)
	}
}

// A server that starts again reads from the record whether a sandbox was stopped.
func TestFailedRecordOfStopIsRepeated(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t)
	parts, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	obstacle := filepath.Join(r.dir, "state", "sandboxes", p.id+".new")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	request := &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id}
	if _, err := r.StopPodSandbox(t.Context(), request); err == nil || !strings.Contains(err.Error(), "record") {
		t.Errorf("StopPodSandbox() without a record error = %v", err)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	if _, err := r.StopPodSandbox(t.Context(), request); err != nil {
		t.Error(err)
	}
	r.end()
	r.serve(t, parts)
	s, err := r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	if err != nil || s.Status.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("PodSandboxStatus() after a restart = %v, %v; want it not ready", s, err)
	}
}

func TestPodAddressIsReachable(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t)
	s, err := r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
	if err != nil {
		t.Fatal(err)
	}
	p.start("c", "exec sleep 1000")
	// No program listens, so the Pod's own network refuses the connection at once.
	_, err = net.DialTimeout("tcp", net.JoinHostPort(s.Status.Network.Ip, "80"), timeout)
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("DialTimeout() error = %v, want connection refused", err)
	}
}

func TestPullImageBuildsImage(t *testing.T) {
	r := newRuntime(t)
	spec := &runtimeapi.ImageSpec{Image: "test/built:v1"}
	if s, err := r.images.ImageStatus(
		t.Context(), &runtimeapi.ImageStatusRequest{Image: spec},
	); err != nil || s.Image != nil {
		t.Errorf("before the pull, ImageStatus() = %v, %v; want no image", s, err)
	}
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "impatient"}}
	pulled, err := r.images.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: spec, SandboxConfig: pod})
	if err != nil {
		t.Fatal(err)
	}
	if r.builtFor != "impatient" {
		t.Errorf("the image was built for the Pod %q, want impatient", r.builtFor)
	}
	s, err := r.images.ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{Image: spec})
	if err != nil || s.Image.Id != pulled.ImageRef || !slices.Contains(s.Image.RepoTags, "docker.io/test/built:v1") {
		t.Errorf("after the pull, ImageStatus() = %v, %v", s, err)
	}
	_, err = r.images.PullImage(t.Context(), &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: "test/nosuch:v1"},
	})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "make docker-build") {
		t.Errorf("PullImage() error for an unknown image = %v", err)
	}
}

func TestNewContainerUsesChangedImage(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t)
	for _, version := range []string{"one", "two"} {
		r.putImage(t, "test/changes:v1", `{"config":{"Env":["VERSION=`+version+`"]}}`)
		output, _ := p.ends(version, "echo $VERSION", func(c *runtimeapi.ContainerConfig) {
			c.Image.Image = "test/changes:v1"
		})
		if output != version {
			t.Errorf("got output %q, want %q", output, version)
		}
	}
}
