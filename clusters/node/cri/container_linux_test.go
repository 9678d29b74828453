// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestContainerLifecycle(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t)
	id := p.create("c", `echo hello; read line; exit 3`, func(c *runtimeapi.ContainerConfig) { c.Stdin = true })
	if s := r.status(t, id); s.State != runtimeapi.ContainerState_CONTAINER_CREATED ||
		s.CreatedAt == 0 || s.StartedAt != 0 {
		t.Errorf("before the start, status = %v", s)
	}
	if _, err := r.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	if s := r.status(t, id); s.State != runtimeapi.ContainerState_CONTAINER_RUNNING ||
		s.StartedAt < s.CreatedAt || s.FinishedAt != 0 {
		t.Errorf("while the container runs, status = %v", s)
	}
	if _, err := r.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	if s := r.status(t, id); s.State != runtimeapi.ContainerState_CONTAINER_EXITED || s.ExitCode != 128+9 ||
		s.Reason != "Error" || s.FinishedAt < s.StartedAt {
		t.Errorf("after the stop, status = %v", s)
	}
	if _, s := p.ends("well", "true"); s.ExitCode != 0 || s.Reason != "Completed" {
		t.Errorf("after a successful exit, status = %v", s)
	}
}

func TestFailedStartIsReported(t *testing.T) {
	r := newRuntime(t)
	id := r.pod(t).create("c", "", func(c *runtimeapi.ContainerConfig) { c.Command = []string{"/no/such"} })
	_, err := r.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: id})
	if err == nil || !strings.Contains(err.Error(), `"/no/such": no such file`) {
		t.Errorf("StartContainer() error = %v", err)
	}
	if s := r.status(t, id); s.State != runtimeapi.ContainerState_CONTAINER_EXITED || s.ExitCode != 127 ||
		s.Reason != "StartError" || s.Message == "" {
		t.Errorf("after a failed start, status = %v, want exit code 127 and reason StartError", s)
	}
}

func TestStopSendsSIGTERMFirst(t *testing.T) {
	r := newRuntime(t)
	p := r.pod(t)
	polite := p.start("polite", `trap 'echo asked; exit 0' TERM; echo ready; while true; do sleep 0.01; done`)
	deaf := p.start("deaf", `trap '' TERM; echo ready; while true; do sleep 0.01; done`)
	for _, name := range []string{"polite", "deaf"} {
		until(t, name, func() (struct{}, bool) { return struct{}{}, strings.Contains(p.logText(name), "ready") })
	}
	for _, id := range []string{polite, deaf} {
		if _, err := r.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if s := r.status(t, polite); s.ExitCode != 0 || !strings.Contains(p.logText("polite"), "asked") {
		t.Errorf("the container that handles SIGTERM has status %v, want exit code 0", s)
	}
	if s := r.status(t, deaf); s.ExitCode != 128+9 {
		t.Errorf("the container that ignores SIGTERM has status %v, want exit code 137", s)
	}
	if len(r.network.drained) != 2 {
		t.Errorf("drained containers = %v, want 2", r.network.drained)
	}
}

func TestStopSignalComesFromPodOrImage(t *testing.T) {
	r := newRuntime(t)
	r.putImage(t, "test/quit:v1", `{"config":{"StopSignal":"SIGQUIT"}}`)
	p := r.pod(t)
	for name, change := range map[string]func(*runtimeapi.ContainerConfig){
		"QUIT": func(c *runtimeapi.ContainerConfig) { c.Image = &runtimeapi.ImageSpec{Image: "test/quit:v1"} },
		"USR1": func(c *runtimeapi.ContainerConfig) {
			c.Image, c.StopSignal = &runtimeapi.ImageSpec{Image: "test/quit:v1"}, runtimeapi.Signal_SIGUSR1
		},
	} {
		id := p.start(name,
			`for s in TERM QUIT USR1; do trap "echo $s; exit 0" $s; done; echo ready; while true; do sleep 0.01; done`,
			change)
		until(t, name, func() (struct{}, bool) { return struct{}{}, strings.Contains(p.logText(name), "ready") })
		if _, err := r.StopContainer(
			t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 10},
		); err != nil {
			t.Fatal(err)
		}
		if output := p.logText(name); !strings.HasSuffix(output, name) {
			t.Errorf("got output %q, want %s at its end", output, name)
		}
	}
}

func TestPodEnvironmentOverridesImage(t *testing.T) {
	r := newRuntime(t)
	output, _ := r.pod(t).ends("c", `echo $FROM $BOTH $HOSTNAME $HOME`, func(c *runtimeapi.ContainerConfig) {
		c.Envs = []*runtimeapi.KeyValue{{Key: "BOTH", Value: []byte("pod")}}
	})
	if output != "image pod the-pod /" {
		t.Errorf("got output %q", output)
	}
}

func TestPodSetsUserAndGroup(t *testing.T) {
	r := newRuntime(t)
	output, s := r.pod(t).ends("c", `id -u; id -g`, func(c *runtimeapi.ContainerConfig) {
		c.Linux.SecurityContext.RunAsUser, c.Linux.SecurityContext.RunAsGroup = &runtimeapi.Int64Value{Value: 1000},
			&runtimeapi.Int64Value{Value: 2000}
	})
	if output != "1000\n2000" || s.User.Linux.Uid != 1000 || s.User.Linux.Gid != 2000 {
		t.Errorf("got output %q and user %v, want user 1000 and group 2000", output, s.User)
	}
}

func TestReadOnlyRootIncludesNames(t *testing.T) {
	r := newRuntime(t)
	script := `for f in resolv.conf hostname; do (echo other > /etc/$f) 2>/dev/null && echo wrote $f; done; echo end`
	output, _ := r.pod(t).ends("c", script, func(c *runtimeapi.ContainerConfig) {
		c.Linux.SecurityContext.ReadonlyRootfs = true
	})
	if output != "end" {
		t.Errorf("got output %q, want no file written", output)
	}
}

func TestUnknownReferencesAreErrors(t *testing.T) {
	r := newRuntime(t)
	r.putImage(t, "test/signal:v1", `{"config":{"StopSignal":"999"}}`)
	p := r.pod(t)
	for name, test := range map[string]struct {
		change func(*runtimeapi.ContainerConfig)
		want   string
	}{
		"an image": {
			func(c *runtimeapi.ContainerConfig) { c.Image.Image = "no/such:v1" },
			"make docker-build",
		},
		"an invalid image name": {
			func(c *runtimeapi.ContainerConfig) { c.Image.Image = "No:Such:v1" },
			"not the name of an image",
		},
		"a user": {
			func(c *runtimeapi.ContainerConfig) { c.Linux.SecurityContext.RunAsUsername = "nosuch" },
			`no user "nosuch"`,
		},
		"a stop signal": {
			func(c *runtimeapi.ContainerConfig) { c.Image.Image = "test/signal:v1" },
			`unknown signal "999"`,
		},
	} {
		config := &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{Image: image},
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{}},
		}
		test.change(config)
		_, err := r.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
			PodSandboxId:  p.id,
			Config:        config,
			SandboxConfig: p.config,
		})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: CreateContainer() error = %v, want one with %q", name, err, test.want)
		}
	}
	id := p.create("seccomp", "true", func(c *runtimeapi.ContainerConfig) {
		c.Linux.SecurityContext.Seccomp = &runtimeapi.SecurityProfile{
			ProfileType:  runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: "mine",
		}
	})
	if _, err := r.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: id}); err == nil ||
		!strings.Contains(err.Error(), `seccomp profile "mine"`) {
		t.Errorf("StartContainer() error for an unknown seccomp profile = %v", err)
	}
	request := &runtimeapi.RunPodSandboxRequest{Config: p.config, RuntimeHandler: "gvisor"}
	if _, err := r.RunPodSandbox(t.Context(), request); err == nil || !strings.Contains(err.Error(), `"gvisor"`) {
		t.Errorf("RunPodSandbox() error for an unknown runtime class = %v", err)
	}
}

func TestExecSync(t *testing.T) {
	r := newRuntime(t)
	id := r.pod(t).start("c", `echo there > /file; exec sleep 1000`)
	output := until(t, "the file", func() (string, bool) {
		output, _ := r.exec(t, id, `cat /file; hostname; echo $BOTH`)
		return output, strings.HasPrefix(output, "there")
	})
	if output != "there\nthe-pod\nimage" {
		t.Errorf("got output %q", output)
	}
	if _, code := r.exec(t, id, "exit 42"); code != 42 {
		t.Errorf("exit code = %d, want 42", code)
	}
	done, err := r.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"nosuch"}})
	if err != nil || done.ExitCode != 127 || !strings.Contains(string(done.Stderr), "not found") {
		t.Errorf("ExecSync() of a program that does not exist = %v, %v; want exit code 127", done, err)
	}
	_, err = r.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{
		ContainerId: id,
		Cmd:         []string{"sleep", "1000"},
		Timeout:     1,
	})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("ExecSync() error after the timeout = %v, want DeadlineExceeded", err)
	}
	// This program leaves another one behind, which holds its output open.
	if output, code := r.exec(t, id, "sleep 1000 & echo done"); output != "done" || code != 0 {
		t.Errorf("got output %q and exit code %d, want done and 0", output, code)
	}
}
