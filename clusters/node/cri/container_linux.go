// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/keeper"
)

// CreateContainer creates a container's files. It starts nothing.
func (s *Server) CreateContainer(
	_ context.Context, r *runtimeapi.CreateContainerRequest,
) (*runtimeapi.CreateContainerResponse, error) {
	b, err := s.sandbox(r.PodSandboxId)
	if err != nil {
		return nil, err
	}
	image, err := s.Files.Image(r.Config.GetImage().GetImage())
	if err != nil {
		return nil, imageError(r.Config.GetImage().GetImage(), err)
	}
	c := &containerRecord{
		ID:      newID(),
		Sandbox: b.ID,
		Created: time.Now(),
		Image:   image.Configuration.Digest,
		config:  r.Config,
	}
	c.ImageEnv, c.Entrypoint, c.Cmd, c.ImageDir = image.Env, image.Entrypoint, image.Cmd, image.WorkingDir
	if c.Stop, err = stopSignal(r.Config.GetStopSignal(), image.StopSignal); err != nil {
		return nil, err
	}
	if err := s.Files.Unpack(image); err != nil {
		return nil, err
	}
	user, err := s.Files.User(image, userOf(r.Config.GetLinux().GetSecurityContext(), image.User))
	if err != nil {
		return nil, err
	}
	c.User, c.Group, c.Home = user.ID, user.Group, user.Home
	security := r.Config.GetLinux().GetSecurityContext()
	for _, group := range security.GetSupplementalGroups() {
		c.Groups = append(c.Groups, int(group))
	}
	if security.GetSupplementalGroupsPolicy() == runtimeapi.SupplementalGroupsPolicy_Merge {
		c.Groups = append(c.Groups, user.Groups...)
	}
	if c.Root, err = s.Files.Prepare(c.ID, image); err == nil {
		c.Root.ReadOnly = security.GetReadonlyRootfs()
		err = s.writeContainer(c)
	}
	if err != nil {
		return nil, errors.Join(err, s.Files.Remove(c.ID))
	}
	s.mutex.Lock()
	s.containers[c.ID] = c
	s.mutex.Unlock()
	return &runtimeapi.CreateContainerResponse{ContainerId: c.ID}, nil
}

// userOf returns the user that a container runs as: "user:group", as an image writes it.
func userOf(security *runtimeapi.LinuxContainerSecurityContext, image string) string {
	user := image
	if security.GetRunAsUser() != nil {
		user = fmt.Sprint(security.GetRunAsUser().GetValue())
	} else if security.GetRunAsUsername() != "" {
		user = security.GetRunAsUsername()
	}
	if security.GetRunAsGroup() != nil {
		name, _, _ := strings.Cut(user, ":")
		user = fmt.Sprintf("%s:%d", name, security.GetRunAsGroup().GetValue())
	}
	return user
}

// lastRealTime is the last real-time signal, which is also the last of all signals. firstRealTime is the first one that
// the C library leaves to programs.
const firstRealTime, lastRealTime = 34, 64

// stopSignal returns the signal that asks a container to end: the Pod's, or else the image's, or else SIGTERM.
func stopSignal(wanted runtimeapi.Signal, image string) (int, error) {
	name := strings.ToUpper(image)
	if wanted != runtimeapi.Signal_RUNTIME_DEFAULT {
		name = wanted.String()
	}
	if name == "" {
		return int(unix.SIGTERM), nil
	}
	number, err := strconv.Atoi(name)
	if err != nil {
		number = signalNumber(name)
	}
	// A container with a signal that does not exist could not be stopped.
	if number < 1 || number > lastRealTime {
		return 0, fmt.Errorf("unknown signal %q", name)
	}
	return number, nil
}

// signalNumber returns the number of the signal with a name, such as KILL, SIGKILL or SIGRTMIN+3. It returns 0 if there
// is none.
func signalNumber(name string) int {
	name = "SIG" + strings.TrimPrefix(name, "SIG")
	name = strings.NewReplacer("MINPLUS", "MIN+", "MAXMINUS", "MAX-").Replace(name) // as the CRI writes them
	for prefix, base := range map[string]int{"SIGRTMIN": firstRealTime, "SIGRTMAX": lastRealTime} {
		if offset, ok := strings.CutPrefix(name, prefix); ok {
			n, err := strconv.Atoi(cmp.Or(offset, "+0"))
			if err != nil {
				return 0
			}
			return base + n
		}
	}
	return int(unix.SignalNum(name))
}

// StartContainer starts the program.
func (s *Server) StartContainer(
	ctx context.Context, r *runtimeapi.StartContainerRequest,
) (*runtimeapi.StartContainerResponse, error) {
	c, err := s.container(r.ContainerId)
	if err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if state := c.state(); state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return nil, status.Errorf(codes.FailedPrecondition, "the container is %s", state)
	}
	if err := s.start(ctx, c); err != nil {
		c.Started, c.Finished = time.Now(), time.Now()
		c.ExitCode, c.Reason, c.Message = startCode(err), "StartError", err.Error()
		return nil, errors.Join(fmt.Errorf("failed to start the container: %w", err), s.writeContainer(c))
	}
	s.follow(c)
	if err := s.writeContainer(c); err != nil {
		return nil, err
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

// startCode returns the exit code of a container that did not start. As in a shell, it is 127 if there is no such
// program.
func startCode(err error) int {
	const notFound, other = 127, 128
	var failed *container.StartError
	if errors.As(err, &failed) &&
		(strings.Contains(failed.Message, "not found") || strings.Contains(failed.Message, "no such file")) {
		return notFound
	}
	return other
}

func (s *Server) start(ctx context.Context, c *containerRecord) error {
	b, err := s.sandbox(c.Sandbox)
	if err != nil {
		return err
	}
	spec, err := s.spec(b, c)
	if err != nil {
		return err
	}
	options := c.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	files, err := s.open(b, options)
	if err != nil {
		return err
	}
	defer closeFiles(files)
	start := keeper.Start{
		ID: c.ID, Spec: spec, Namespaces: files, Stdin: c.config.Stdin, StdinOnce: c.config.StdinOnce,
	}
	switch options.GetPid() {
	case runtimeapi.NamespaceMode_POD:
		start.Processes = b.ID
	case runtimeapi.NamespaceMode_TARGET:
		start.Processes = options.GetTargetId()
	default:
	}
	if c.config.LogPath != "" {
		start.Log = filepath.Join(b.config.LogDirectory, c.config.LogPath)
	}
	state, err := s.Keeper.Start(context.WithoutCancel(ctx), start)
	if err != nil {
		return err
	}
	c.Started = state.Started
	return nil
}

// follow records the end of a running container.
func (s *Server) follow(c *containerRecord) {
	c.done = make(chan struct{})
	go func() {
		state, err := s.Keeper.Wait(s.life, c.ID)
		if s.life.Err() != nil {
			return // the next server follows it
		}
		c.mutex.Lock()
		c.Finished, c.ExitCode, c.Reason = state.Ended, state.Code, "Completed"
		switch {
		case err != nil:
			c.Finished, c.ExitCode, c.Reason, c.Message = time.Now(), unknownCode, "ContainerStatusUnknown", err.Error()
		case state.OutOfMemory:
			c.Reason = "OOMKilled"
		case state.Code != 0:
			c.Reason = "Error"
		}
		// If the record can't be written to the disk, the server continues, and keeps it in memory.
		_ = s.writeContainer(c)
		c.mutex.Unlock()
		close(c.done)
	}()
}

// StopContainer asks a container to end, and kills it if it has not ended within the time.
func (s *Server) StopContainer(
	ctx context.Context, r *runtimeapi.StopContainerRequest,
) (*runtimeapi.StopContainerResponse, error) {
	c, err := s.container(r.ContainerId)
	if err != nil {
		return &runtimeapi.StopContainerResponse{}, nil //nolint:nilerr // what is not there needs no stop: the CRI demands it
	}
	return &runtimeapi.StopContainerResponse{}, s.end(ctx, c, time.Duration(r.Timeout)*time.Second)
}

// drainLimit bounds how long a Pod that is being stopped may still receive new connections. It takes milliseconds.
const drainLimit = 5 * time.Second

func (s *Server) end(ctx context.Context, c *containerRecord, grace time.Duration) error {
	c.mutex.Lock()
	done, running := c.done, c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING
	c.mutex.Unlock()
	if !running {
		return nil
	}
	if grace > 0 {
		patience, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		s.drain(patience, c)
		if err := s.Keeper.Signal(ctx, c.ID, unix.Signal(c.Stop)); err != nil {
			return fmt.Errorf("sending the stop signal to a container: %w", err)
		}
		select {
		case <-done:
			return nil
		case <-patience.Done():
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if err := s.Keeper.Kill(ctx, c.ID); err != nil {
		return fmt.Errorf("killing a container: %w", err)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drain waits until no client is routed to the container's Pod any more. Otherwise the program would refuse requests
// that are already under way, because the API learns of the end of a Pod at the same time as the kubelet.
func (s *Server) drain(ctx context.Context, c *containerRecord) {
	b, err := s.sandbox(c.Sandbox)
	if err != nil || b.hostNetwork() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	network, err := s.namespaces(b).Open("net")
	if err != nil {
		return
	}
	defer network.Close()
	_ = s.Network.Drained(ctx, b.config.Metadata, b.Address, network) // the container is stopped in any case
}

// RemoveContainer removes a container's record and its files.
func (s *Server) RemoveContainer(
	ctx context.Context, r *runtimeapi.RemoveContainerRequest,
) (*runtimeapi.RemoveContainerResponse, error) {
	c, err := s.container(r.ContainerId)
	if err != nil {
		return &runtimeapi.RemoveContainerResponse{}, nil //nolint:nilerr // what is not there needs no removal: the CRI demands it
	}
	return &runtimeapi.RemoveContainerResponse{}, s.remove(ctx, c)
}

func (s *Server) remove(ctx context.Context, c *containerRecord) error {
	if err := s.end(ctx, c, 0); err != nil {
		return err
	}
	if err := s.Keeper.Forget(ctx, c.ID); err != nil && !errors.Is(err, keeper.ErrMissing) {
		return err
	}
	if err := errors.Join(s.Files.Remove(c.ID), s.removeRecord(containers, c.ID), s.removeCgroup(c.ID)); err != nil {
		return err
	}
	s.mutex.Lock()
	delete(s.containers, c.ID)
	s.mutex.Unlock()
	return nil
}

// ListContainers lists all containers that the filter selects, the newest first.
func (s *Server) ListContainers(
	_ context.Context, r *runtimeapi.ListContainersRequest,
) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: s.listContainers(r.Filter)}, nil
}

func (s *Server) allContainers() []*containerRecord {
	s.mutex.Lock()
	all := make([]*containerRecord, 0, len(s.containers))
	for _, c := range s.containers {
		all = append(all, c)
	}
	s.mutex.Unlock()
	slices.SortFunc(all, func(a, b *containerRecord) int { return b.Created.Compare(a.Created) })
	return all
}

func (s *Server) listContainers(filter *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	list := []*runtimeapi.Container{}
	for _, c := range s.allContainers() {
		c.mutex.Lock()
		state := c.state()
		c.mutex.Unlock()
		if filter.GetId() != "" && !strings.HasPrefix(c.ID, filter.GetId()) ||
			filter.GetState() != nil && filter.GetState().State != state ||
			filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.Sandbox ||
			!matches(filter.GetLabelSelector(), c.config.Labels) {
			continue
		}
		list = append(list, &runtimeapi.Container{
			Id:           c.ID,
			PodSandboxId: c.Sandbox,
			Metadata:     c.config.Metadata,
			Image:        c.config.Image,
			ImageRef:     c.Image,
			ImageId:      c.Image,
			State:        state,
			CreatedAt:    c.Created.UnixNano(),
			Labels:       c.config.Labels,
			Annotations:  c.config.Annotations,
		})
	}
	return list
}

// ContainerStatus returns the status of one container.
func (s *Server) ContainerStatus(
	_ context.Context, r *runtimeapi.ContainerStatusRequest,
) (*runtimeapi.ContainerStatusResponse, error) {
	c, err := s.container(r.ContainerId)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatusResponse{Status: s.describe(c)}, nil
}

func (s *Server) describe(c *containerRecord) *runtimeapi.ContainerStatus {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	described := &runtimeapi.ContainerStatus{
		Id:          c.ID,
		Metadata:    c.config.Metadata,
		State:       c.state(),
		CreatedAt:   c.Created.UnixNano(),
		StartedAt:   nanoseconds(c.Started),
		FinishedAt:  nanoseconds(c.Finished),
		ExitCode:    int32(c.ExitCode),
		Image:       nameOf(c.config.Image),
		ImageRef:    c.Image,
		ImageId:     c.Image,
		Reason:      c.Reason,
		Message:     c.Message,
		Labels:      c.config.Labels,
		Annotations: c.config.Annotations,
		Mounts:      c.config.Mounts,
		Resources:   &runtimeapi.ContainerResources{Linux: c.config.GetLinux().GetResources()},
		User: &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{
			Uid: int64(c.User),
			Gid: int64(c.Group),
		}},
	}
	for _, group := range c.Groups {
		described.User.Linux.SupplementalGroups = append(described.User.Linux.SupplementalGroups, int64(group))
	}
	if b, err := s.sandbox(c.Sandbox); err == nil && c.config.LogPath != "" {
		described.LogPath = filepath.Join(b.config.LogDirectory, c.config.LogPath)
	}
	return described
}

// nameOf returns the image as the Pod names it. The kubelet requests it by its ID.
func nameOf(image *runtimeapi.ImageSpec) *runtimeapi.ImageSpec {
	if image.GetUserSpecifiedImage() == "" {
		return image
	}
	return &runtimeapi.ImageSpec{Image: image.GetUserSpecifiedImage(), Annotations: image.GetAnnotations()}
}

// ReopenContainerLog continues a container's log in a new file, after the kubelet has renamed the old one.
func (s *Server) ReopenContainerLog(ctx context.Context, r *runtimeapi.ReopenContainerLogRequest,
) (*runtimeapi.ReopenContainerLogResponse, error) {
	c, err := s.container(r.ContainerId)
	if err != nil {
		return nil, err
	}
	b, err := s.sandbox(c.Sandbox)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ReopenContainerLogResponse{},
		s.Keeper.Reopen(ctx, c.ID, filepath.Join(b.config.LogDirectory, c.config.LogPath))
}
