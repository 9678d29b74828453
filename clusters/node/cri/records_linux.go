// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/keeper"
	"lva.io/operators/clusters/node/namespace"
)

// sandbox is the state that the containers of a Pod share. All its fields are recorded.
type sandbox struct {
	ID      string
	Created time.Time
	// Address is the Pod's address. For a Pod in the node's network, it is the node's.
	Address netip.Addr
	// Ready reports that it was not stopped.
	Ready bool

	config *runtimeapi.PodSandboxConfig
}

// containerRecord is a container. Each of its exported fields is recorded.
type containerRecord struct {
	ID      string
	Sandbox string
	Created time.Time
	// Image is the ID of its image.
	Image string
	Root  container.Root
	// Stop is the signal that asks it to end.
	Stop                      int
	User                      int
	Group                     int
	Groups                    []int
	Home                      string
	ImageEnv, Entrypoint, Cmd []string
	ImageDir                  string

	Started, Finished time.Time
	ExitCode          int
	Reason, Message   string

	config *runtimeapi.ContainerConfig

	mutex sync.Mutex
	// done is closed when it has ended. It is nil if the container was never started.
	done chan struct{}
}

// state returns the state of the container. The caller must hold the mutex.
func (c *containerRecord) state() runtimeapi.ContainerState {
	switch {
	case !c.Finished.IsZero():
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case !c.Started.IsZero():
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return runtimeapi.ContainerState_CONTAINER_CREATED
}

func (c *containerRecord) running() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING
}

// hostNetwork reports whether a Pod is in the node's network.
func (b *sandbox) hostNetwork() bool {
	return b.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

// sharesProcesses reports whether its containers see each other's processes.
func (b *sandbox) sharesProcesses() bool {
	return b.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetPid() == runtimeapi.NamespaceMode_POD
}

// record is the content of a file: the server's own data, and the kubelet's configuration as received.
type record struct {
	What   json.RawMessage
	Config []byte
}

const (
	sandboxes  = "sandboxes"
	containers = "containers"
	shared     = "namespaces"
)

// write writes a record to the disk at once.
func (s *Server) write(folder, id string, what any, config proto.Message) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	r := record{What: text}
	if r.Config, err = proto.Marshal(config); err != nil {
		return err
	}
	if text, err = json.Marshal(r); err != nil {
		return err
	}
	file := s.path(folder, id)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	return os.Rename(file+".new", file)
}

func (s *Server) writeContainer(c *containerRecord) error {
	return s.write(containers, c.ID, c, c.config)
}

func (s *Server) removeRecord(folder, id string) error {
	if err := os.Remove(s.path(folder, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a record: %w", err)
	}
	return nil
}

// readAll reads the records of a folder.
func readAll(dir string, each func(r record) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == ".new" {
			continue // an interrupted write left it, and the old record is valid
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("reading %s: %w", entry.Name(), err)
		}
		if err := each(r); err != nil {
			return fmt.Errorf("reading %s: %w", entry.Name(), err)
		}
	}
	return nil
}

// load restores the records of an earlier server.
func (s *Server) load(ctx context.Context) error {
	err := readAll(s.path(sandboxes), func(r record) error {
		b := &sandbox{config: &runtimeapi.PodSandboxConfig{}}
		if err := errors.Join(json.Unmarshal(r.What, b), proto.Unmarshal(r.Config, b.config)); err != nil {
			return err
		}
		s.sandboxes[b.ID] = b
		if b.Ready && !b.hostNetwork() {
			s.Network.Publish(b.ID, b.config.GetMetadata(), b.Address, b.config.GetPortMappings())
		}
		return nil
	})
	if err != nil {
		return err
	}
	running := map[string]keeper.State{}
	states, err := s.Keeper.List(ctx)
	if err != nil {
		return err
	}
	for _, state := range states {
		running[state.ID] = state
	}
	if err := readAll(s.path(containers), func(r record) error {
		c := &containerRecord{config: &runtimeapi.ContainerConfig{}}
		if err := errors.Join(json.Unmarshal(r.What, c), proto.Unmarshal(r.Config, c.config)); err != nil {
			return err
		}
		s.containers[c.ID] = c
		state, kept := running[c.ID]
		switch {
		case kept && c.Finished.IsZero():
			// The earlier server may have ended after it started the container and before it recorded that.
			c.Started = state.Started
			s.follow(c)
		case !c.Started.IsZero() && c.Finished.IsZero():
			c.Finished, c.ExitCode, c.Reason, c.Message = time.Now(), unknownCode,
				"ContainerStatusUnknown", "the exit code is unknown"
			return s.writeContainer(c)
		}
		return nil
	}); err != nil {
		return err
	}
	return s.removeUnrecorded(ctx, states)
}

// removeUnrecorded removes what an earlier server had begun to create, but had not recorded when it ended.
func (s *Server) removeUnrecorded(ctx context.Context, kept []keeper.State) error {
	known := func(id string) bool { return s.containers[id] != nil || s.sandboxes[id] != nil }
	for _, state := range kept {
		if known(state.ID) {
			continue
		}
		if err := s.Keeper.Kill(ctx, state.ID); err != nil {
			return err
		}
		if _, err := s.Keeper.Wait(ctx, state.ID); err != nil {
			return err
		}
		if err := s.Keeper.Forget(ctx, state.ID); err != nil {
			return err
		}
	}
	for _, id := range s.Network.Attached() {
		if !known(id) {
			if err := s.Network.Detach(id); err != nil {
				return err
			}
		}
	}
	entries, err := os.ReadDir(s.path(shared))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if !known(entry.Name()) {
			if err := (&namespace.Set{Dir: s.path(shared, entry.Name())}).Close(); err != nil {
				return err
			}
		}
	}
	return s.Files.Keep(known)
}

// unknownCode is the exit code that Kubernetes reports for a container if the real one is unknown.
const unknownCode = 137

// namespaces returns the namespaces of a sandbox.
func (s *Server) namespaces(b *sandbox) *namespace.Set {
	return &namespace.Set{Dir: s.path(shared, b.ID)}
}
