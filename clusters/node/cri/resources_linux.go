// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// createCgroup creates the control group of a container and sets its limits. It returns an empty string if the node has
// no control groups.
func (s *Server) createCgroup(c *containerRecord) (string, error) {
	if s.Cgroups == "" {
		return "", nil
	}
	dir := filepath.Join(s.Cgroups, c.ID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the control group of a container: %w", err)
	}
	return dir, limit(dir, c.config.GetLinux().GetResources())
}

// limit writes the limits of a control group (https://docs.kernel.org/admin-guide/cgroup-v2.html).
func limit(dir string, resources *runtimeapi.LinuxContainerResources) error {
	for file, value := range limits(resources) {
		if err := set(filepath.Join(dir, file), value); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("limiting a container: %w", err)
		}
	}
	return nil
}

// set writes to an existing file of a control group. A file that does not exist belongs to a controller that is not
// delegated, or to a newer kernel.
func set(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func limits(resources *runtimeapi.LinuxContainerResources) map[string]string {
	values := map[string]string{}
	maps.Copy(values, resources.GetUnified())
	if memory := resources.GetMemoryLimitInBytes(); memory > 0 {
		values["memory.max"] = strconv.FormatInt(memory, 10)
		values["memory.oom.group"] = "1"
		values["memory.swap.max"] = "0"
	}
	if quota, period := resources.GetCpuQuota(), resources.GetCpuPeriod(); quota > 0 && period > 0 {
		values["cpu.max"] = fmt.Sprintf("%d %d", quota, period)
	}
	if shares := resources.GetCpuShares(); shares > 0 {
		// Convert from the old scale of 2 to 262144 to 1 to 10000 (KEP-2254).
		const low, high, most = 2, 262144, 9999
		values["cpu.weight"] = strconv.FormatInt(1+(min(max(shares, low), high)-low)*most/(high-low), 10)
	}
	return values
}

func (s *Server) removeCgroup(id string) error {
	if s.Cgroups == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(s.Cgroups, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the control group of a container: %w", err)
	}
	return nil
}

// UpdateContainerResources changes the limits of a running container.
func (s *Server) UpdateContainerResources(_ context.Context, r *runtimeapi.UpdateContainerResourcesRequest,
) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	c, err := s.container(r.ContainerId)
	if err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.config.Linux == nil {
		c.config.Linux = &runtimeapi.LinuxContainerConfig{}
	}
	c.config.Linux.Resources = r.Linux
	if err := s.writeContainer(c); err != nil {
		return nil, err
	}
	if s.Cgroups == "" {
		return &runtimeapi.UpdateContainerResourcesResponse{}, nil
	}
	return &runtimeapi.UpdateContainerResourcesResponse{}, limit(filepath.Join(s.Cgroups, c.ID), r.Linux)
}

// ContainerStats returns the resource usage of a container.
func (s *Server) ContainerStats(
	_ context.Context, r *runtimeapi.ContainerStatsRequest,
) (*runtimeapi.ContainerStatsResponse, error) {
	c, err := s.container(r.ContainerId)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatsResponse{Stats: s.measure(c)}, nil
}

// ListContainerStats returns the resource usage of all running containers.
func (s *Server) ListContainerStats(_ context.Context, r *runtimeapi.ListContainerStatsRequest,
) (*runtimeapi.ListContainerStatsResponse, error) {
	response := &runtimeapi.ListContainerStatsResponse{}
	for _, c := range s.allContainers() {
		filter := r.GetFilter()
		if filter.GetId() != "" && !strings.HasPrefix(c.ID, filter.GetId()) ||
			filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.Sandbox ||
			!matches(filter.GetLabelSelector(), c.config.Labels) || !c.running() {
			continue
		}
		response.Stats = append(response.Stats, s.measure(c))
	}
	return response, nil
}

// measure reads the control group of a container. Without one, only its files are measured.
func (s *Server) measure(c *containerRecord) *runtimeapi.ContainerStats {
	now := time.Now().UnixNano()
	bytes, files := s.Files.Written(c.ID)
	stats := &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.ID, Metadata: c.config.Metadata,
			Labels: c.config.Labels, Annotations: c.config.Annotations,
		},
		Cpu:    &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{}},
		Memory: &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: &runtimeapi.UInt64Value{}},
		WritableLayer: &runtimeapi.FilesystemUsage{
			Timestamp: now, FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: s.Files.Containers},
			UsedBytes: &runtimeapi.UInt64Value{Value: bytes}, InodesUsed: &runtimeapi.UInt64Value{Value: files},
		},
	}
	if s.Cgroups == "" {
		return stats
	}
	dir := filepath.Join(s.Cgroups, c.ID)
	const microsecond = 1000
	stats.Cpu.UsageCoreNanoSeconds.Value = field(filepath.Join(dir, "cpu.stat"), "usage_usec") * microsecond
	stats.Memory.WorkingSetBytes.Value = field(filepath.Join(dir, "memory.current"), "")
	return stats
}

// field returns a number from a file with lines of the form "name number", or from a file that has only a number.
func field(file, name string) uint64 {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), name)
		if number, err := strconv.ParseUint(strings.TrimSpace(rest), 10, 64); found && err == nil {
			return number
		}
	}
	return 0
}

// PodSandboxStats returns the resource usage of a sandbox. It contains nothing beyond the statistics of its containers.
func (s *Server) PodSandboxStats(
	_ context.Context, r *runtimeapi.PodSandboxStatsRequest,
) (*runtimeapi.PodSandboxStatsResponse, error) {
	b, err := s.sandbox(r.PodSandboxId)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxStatsResponse{Stats: s.measurePod(b)}, nil
}

// ListPodSandboxStats returns the resource usage of all sandboxes.
func (s *Server) ListPodSandboxStats(context.Context, *runtimeapi.ListPodSandboxStatsRequest,
) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	s.mutex.Lock()
	all := make([]*sandbox, 0, len(s.sandboxes))
	for _, b := range s.sandboxes {
		all = append(all, b)
	}
	s.mutex.Unlock()
	response := &runtimeapi.ListPodSandboxStatsResponse{}
	for _, b := range all {
		response.Stats = append(response.Stats, s.measurePod(b))
	}
	return response, nil
}

func (s *Server) measurePod(b *sandbox) *runtimeapi.PodSandboxStats {
	stats := &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id: b.ID, Metadata: b.config.Metadata,
			Labels: b.config.Labels, Annotations: b.config.Annotations,
		},
		Linux: &runtimeapi.LinuxPodSandboxStats{},
	}
	for _, c := range s.containersOf(b.ID) {
		if c.running() {
			stats.Linux.Containers = append(stats.Linux.Containers, s.measure(c))
		}
	}
	return stats
}
