// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/keeper"
	"lva.io/operators/clusters/node/namespace"
)

// RunPodSandbox creates what the containers of a Pod share.
func (s *Server) RunPodSandbox(
	ctx context.Context, r *runtimeapi.RunPodSandboxRequest,
) (_ *runtimeapi.RunPodSandboxResponse, err error) {
	if r.RuntimeHandler != "" {
		return nil, fmt.Errorf("the node has no runtime class %q", r.RuntimeHandler)
	}
	s.reserve.replenish()
	b := &sandbox{ID: newID(), Created: time.Now(), Ready: true, config: r.Config}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.dismantle(context.WithoutCancel(ctx), b), os.RemoveAll(s.path(b.ID)))
		}
	}()
	if dir := r.Config.GetLogDirectory(); dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("creating the folder of a Pod's logs: %w", err)
		}
	}
	if err := s.connect(b); err != nil {
		return nil, err
	}
	if err := s.writeNames(b); err != nil {
		return nil, err
	}
	if b.sharesProcesses() {
		if err := s.pause(ctx, b); err != nil {
			return nil, err
		}
	}
	if err := s.write(sandboxes, b.ID, b, b.config); err != nil {
		return nil, err
	}
	s.mutex.Lock()
	s.sandboxes[b.ID] = b
	s.mutex.Unlock()
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: b.ID}, nil
}

// connect creates the namespaces of a sandbox.
func (s *Server) connect(b *sandbox) error {
	hostname := b.config.GetHostname()
	if b.hostNetwork() {
		hostname = "" // the node's
	}
	set, err := namespace.NewSet(s.path(shared, b.ID), hostname)
	if err != nil {
		return err
	}
	if b.hostNetwork() {
		b.Address, err = netip.ParseAddr(s.NodeIP)
		return err
	}
	network, address, err := s.Network.Attach(b.ID)
	if err != nil {
		return err
	}
	defer network.Close()
	b.Address = address
	if err := set.PinNetwork(network); err != nil {
		return err
	}
	for parameter, value := range b.config.GetLinux().GetSysctls() {
		if err := set.Set(parameter, value); err != nil {
			return fmt.Errorf("setting the kernel parameter %s of a Pod: %w", parameter, err)
		}
	}
	s.Network.Publish(b.ID, b.config.GetMetadata(), address, b.config.GetPortMappings())
	return nil
}

// writeNames writes the files with the host name and the DNS configuration of the containers.
func (s *Server) writeNames(b *sandbox) error {
	dir := s.path(b.ID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	hostname := b.config.GetHostname()
	if hostname == "" {
		hostname, _ = os.Hostname() // the node's
	}
	var resolver strings.Builder
	dns := b.config.GetDnsConfig()
	for _, server := range dns.GetServers() {
		fmt.Fprintln(&resolver, "nameserver", server)
	}
	if len(dns.GetSearches()) > 0 {
		fmt.Fprintln(&resolver, "search", strings.Join(dns.GetSearches(), " "))
	}
	if len(dns.GetOptions()) > 0 {
		fmt.Fprintln(&resolver, "options", strings.Join(dns.GetOptions(), " "))
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte(resolver.String()), 0o644),
		os.WriteFile(filepath.Join(dir, "hostname"), []byte(hostname+"\n"), 0o644),
	)
}

// pause starts the first process of a Pod whose containers see each other's processes. That process waits, and reaps
// orphans.
func (s *Server) pause(ctx context.Context, b *sandbox) error {
	root, err := s.Files.Prepare(b.ID, rootfsNothing)
	if err != nil {
		return err
	}
	spec := container.Spec{
		Args: []string{"/pause"}, Root: root, NoNewPrivileges: true, Seccomp: true,
		Mounts: []container.Mount{{Source: s.Init, Target: "/pause", ReadOnly: true}},
	}
	files, err := s.open(b, nil)
	if err != nil {
		return err
	}
	defer closeFiles(files)
	// If the kubelet gives up while the keeper starts the process, nothing would end that.
	_, err = s.Keeper.Start(context.WithoutCancel(ctx), keeper.Start{ID: b.ID, Spec: spec, Namespaces: files})
	return err
}

// open opens the namespaces that a container of the sandbox enters.
func (s *Server) open(b *sandbox, options *runtimeapi.NamespaceOption) (map[string]*os.File, error) {
	kinds := []string{"net", "ipc", "uts"}
	if b.hostNetwork() {
		kinds = []string{"ipc"}
	}
	if options.GetIpc() == runtimeapi.NamespaceMode_NODE {
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == "ipc" })
	}
	files := map[string]*os.File{}
	for _, kind := range kinds {
		file, err := s.namespaces(b).Open(kind)
		if err != nil {
			closeFiles(files)
			return nil, fmt.Errorf("entering the namespaces of a Pod: %w", err)
		}
		files[kind] = file
	}
	return files, nil
}

func closeFiles(files map[string]*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// StopPodSandbox ends all containers in a sandbox, and removes its network.
func (s *Server) StopPodSandbox(
	ctx context.Context, r *runtimeapi.StopPodSandboxRequest,
) (*runtimeapi.StopPodSandboxResponse, error) {
	b, err := s.sandbox(r.PodSandboxId)
	if err != nil {
		return &runtimeapi.StopPodSandboxResponse{}, nil //nolint:nilerr // what is not there needs no stop: the CRI demands it
	}
	return &runtimeapi.StopPodSandboxResponse{}, errors.Join(s.stop(ctx, b), s.reserve.shrink())
}

func (s *Server) stop(ctx context.Context, b *sandbox) error {
	for _, c := range s.containersOf(b.ID) {
		if err := s.end(ctx, c, 0); err != nil {
			return err
		}
	}
	if !s.setReady(b, false) {
		return nil
	}
	err := s.dismantle(ctx, b)
	if err == nil {
		err = s.write(sandboxes, b.ID, b, b.config)
	}
	if err != nil {
		s.setReady(b, true) // so that the kubelet's next attempt repeats this
	}
	return err
}

// setReady records whether a sandbox is ready, and reports whether it was.
func (s *Server) setReady(b *sandbox, ready bool) (was bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	was, b.Ready = b.Ready, ready
	return was
}

// dismantle removes the parts of a sandbox that exist.
func (s *Server) dismantle(ctx context.Context, b *sandbox) error {
	var problems []error
	if b.sharesProcesses() {
		if err := s.Keeper.Kill(ctx, b.ID); err == nil {
			_, err = s.Keeper.Wait(ctx, b.ID)
			problems = append(problems, err, s.Keeper.Forget(ctx, b.ID))
		}
		problems = append(problems, s.Files.Remove(b.ID))
	}
	problems = append(problems, s.namespaces(b).Close())
	if !b.hostNetwork() {
		s.Network.Withdraw(b.ID)
		problems = append(problems, s.Network.Detach(b.ID))
	}
	return errors.Join(problems...)
}

// containersOf returns the containers of a sandbox.
func (s *Server) containersOf(id string) []*containerRecord {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var found []*containerRecord
	for _, c := range s.containers {
		if c.Sandbox == id {
			found = append(found, c)
		}
	}
	return found
}

// RemovePodSandbox removes a sandbox with all its containers.
func (s *Server) RemovePodSandbox(ctx context.Context, r *runtimeapi.RemovePodSandboxRequest,
) (*runtimeapi.RemovePodSandboxResponse, error) {
	b, err := s.sandbox(r.PodSandboxId)
	if err != nil {
		return &runtimeapi.RemovePodSandboxResponse{}, nil //nolint:nilerr // what is not there needs no removal: the CRI demands it
	}
	if err := s.stop(ctx, b); err != nil {
		return nil, err
	}
	for _, c := range s.containersOf(b.ID) {
		if err := s.remove(ctx, c); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(s.removeRecord(sandboxes, b.ID), os.RemoveAll(s.path(b.ID))); err != nil {
		return nil, err
	}
	s.mutex.Lock()
	delete(s.sandboxes, b.ID)
	s.mutex.Unlock()
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

func (s *Server) stateOf(b *sandbox) runtimeapi.PodSandboxState {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if b.Ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// PodSandboxStatus returns the status of one sandbox.
func (s *Server) PodSandboxStatus(
	_ context.Context, r *runtimeapi.PodSandboxStatusRequest,
) (*runtimeapi.PodSandboxStatusResponse, error) {
	b, err := s.sandbox(r.PodSandboxId)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: s.statusOf(b), Timestamp: time.Now().UnixNano()}, nil
}

func (s *Server) statusOf(b *sandbox) *runtimeapi.PodSandboxStatus {
	status := &runtimeapi.PodSandboxStatus{
		Id: b.ID, Metadata: b.config.Metadata, State: s.stateOf(b), CreatedAt: b.Created.UnixNano(),
		Labels: b.config.Labels, Annotations: b.config.Annotations, Network: &runtimeapi.PodSandboxNetworkStatus{},
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: b.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	}
	if !b.hostNetwork() {
		status.Network.Ip = b.Address.String()
	}
	return status
}

// ListPodSandbox lists all sandboxes that the filter selects, the newest first.
func (s *Server) ListPodSandbox(
	_ context.Context, r *runtimeapi.ListPodSandboxRequest,
) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: s.listSandboxes(r.Filter)}, nil
}

func (s *Server) listSandboxes(filter *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	s.mutex.Lock()
	all := make([]*sandbox, 0, len(s.sandboxes))
	for _, b := range s.sandboxes {
		all = append(all, b)
	}
	s.mutex.Unlock()
	slices.SortFunc(all, func(a, b *sandbox) int { return b.Created.Compare(a.Created) })
	items := make([]*runtimeapi.PodSandbox, 0, len(all))
	for _, b := range all {
		state := s.stateOf(b)
		if filter.GetId() != "" && !strings.HasPrefix(b.ID, filter.GetId()) ||
			filter.GetState() != nil && filter.GetState().State != state ||
			!matches(filter.GetLabelSelector(), b.config.Labels) {
			continue
		}
		items = append(items, &runtimeapi.PodSandbox{
			Id: b.ID, Metadata: b.config.Metadata, State: state, CreatedAt: b.Created.UnixNano(),
			Labels: b.config.Labels, Annotations: b.config.Annotations,
		})
	}
	return items
}

// UpdatePodSandboxResources does nothing, because a sandbox has no limits of its own.
func (s *Server) UpdatePodSandboxResources(context.Context, *runtimeapi.UpdatePodSandboxResourcesRequest,
) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}
