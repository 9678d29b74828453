// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri_test

import (
	"os"
	"path/filepath"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The control group is an ordinary folder here, because only the kernel could enforce limits.
func TestResourceLimitsAndOOMKill(t *testing.T) {
	r := newRuntime(t)
	groups := filepath.Join(r.dir, "groups")
	r.limit(t, groups)
	p := r.pod(t)
	id := p.create("c", `while ! test -e /stop; do sleep 0.01; done; exit 137`, func(c *runtimeapi.ContainerConfig) {
		c.Linux.Resources = &runtimeapi.LinuxContainerResources{
			MemoryLimitInBytes: 64 << 20, CpuQuota: 50_000, CpuPeriod: 100_000, CpuShares: 512,
		}
	})
	dir := filepath.Join(groups, id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"memory.max", "memory.events", "cpu.max", "cpu.weight", "cgroup.procs"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{
		"memory.max":   "67108864",
		"cpu.max":      "50000 100000",
		"cpu.weight":   "20",
		"cgroup.procs": "0",
	})

	if _, err := r.UpdateContainerResources(t.Context(), &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 128 << 20},
	}); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"memory.max": "134217728"})

	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("oom 1\noom_kill 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.exec(t, id, "touch /stop") // this fails if the container ends first
	if s := r.await(t, id, runtimeapi.ContainerState_CONTAINER_EXITED); s.Reason != "OOMKilled" || s.ExitCode != 137 {
		t.Errorf("got reason %s and exit code %d, want OOMKilled and 137", s.Reason, s.ExitCode)
	}
	for _, file := range []string{"memory.max", "memory.events", "cpu.max", "cpu.weight", "cgroup.procs"} {
		if err := os.Remove(filepath.Join(dir, file)); err != nil { // the kernel removes its own files with their folder
			t.Error(err)
		}
	}
}

func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for file, content := range want {
		got, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || len(got) < len(content) || string(got[:len(content)]) != content {
			t.Errorf("%s has content %q, %v; want %q", file, got, err, content)
		}
	}
}
