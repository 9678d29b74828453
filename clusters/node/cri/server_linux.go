// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"

	"lva.io/operators/clusters/node/keeper"
	"lva.io/operators/clusters/node/rootfs"
)

// Options configure a Server.
type Options struct {
	// Dir is the folder in which it records its containers and sandboxes.
	Dir string
	// NodeIP is the node's address: that of Pods in the node's network, and of the kubelet.
	NodeIP string
	// Init is the file of the program that is the first process of a Pod with a shared PID namespace.
	Init    string
	Keeper  *keeper.Client
	Files   *rootfs.Store
	Network Network
	// Build builds an image that the store does not have, for a Pod, or nil if the Pod is not known. The Pod's Event shows
	// the error. If Build is nil, no image can be built.
	Build func(ctx context.Context, pod *runtimeapi.PodSandboxMetadata, reference string) error
	// Cgroups, if it is not empty, is the folder of a control group (v2) in which we may create children.
	Cgroups string
	// Reserve, if it is not empty, is a file on the disk that Pods write to. It reserves some space there for the kubelet.
	Reserve string
}

// Server is the container runtime. All methods are safe for concurrent use.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
	Options

	life   context.Context // of the server
	stream streaming.Server

	reserve reserve

	mutex      sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*containerRecord
}

// New returns a server with the records in its folder. It watches its containers until the context ends.
func New(ctx context.Context, o Options) (*Server, error) {
	s := &Server{
		Options:    o,
		life:       ctx,
		reserve:    reserve{file: o.Reserve},
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*containerRecord{},
	}
	s.reserve.replenish()
	if err := s.load(ctx); err != nil {
		return nil, fmt.Errorf("restoring the running Pods: %w", err)
	}
	return s, nil
}

// messageLimit is the limit that the kubelet's client has.
const messageLimit = 16 << 20

// Serve serves the CRI at a Unix socket, and the streams of exec, attach and port-forward at a port of 127.0.0.1, until
// the context ends.
func (s *Server) Serve(ctx context.Context, path string) error {
	streams, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serving streams: %w", err)
	}
	config := streaming.DefaultConfig
	config.Addr = streams.Addr().String()
	if err := streams.Close(); err != nil { // the streaming server opens its own listener
		return err
	}
	if s.stream, err = streaming.NewServer(config, streamer{s}); err != nil {
		return fmt.Errorf("serving streams: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("serving the container runtime interface: %w", err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(messageLimit), grpc.MaxSendMsgSize(messageLimit))
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	runtimeapi.RegisterImageServiceServer(server, s)
	failed := make(chan error, 2)
	go func() { failed <- s.stream.Start(true) }()
	go func() { failed <- server.Serve(listener) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	server.Stop()
	return errors.Join(err, s.stream.Stop())
}

// newID returns a new random name.
func newID() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// Version returns the runtime's name and version.
func (s *Server) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version:           "0.1.0",
		RuntimeName:       "operator-labs",
		RuntimeVersion:    "1.0.0",
		RuntimeApiVersion: "v1",
	}, nil
}

// Status reports that the runtime is ready. If it were not, the server would not answer.
func (s *Server) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
		}},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{
			Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true},
		}},
		Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}, nil
}

// RuntimeConfig reports that control groups are created as folders, without systemd.
func (s *Server) RuntimeConfig(
	context.Context, *runtimeapi.RuntimeConfigRequest,
) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{
		Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS},
	}, nil
}

// UpdateRuntimeConfig does nothing. Its argument is the Pods' network, which we already know.
func (s *Server) UpdateRuntimeConfig(context.Context, *runtimeapi.UpdateRuntimeConfigRequest,
) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}

// sandbox finds a sandbox by its ID, or by a prefix of it.
func (s *Server) sandbox(id string) (*sandbox, error) { return findIn(s, s.sandboxes, "sandbox", id) }

func (s *Server) container(id string) (*containerRecord, error) {
	return findIn(s, s.containers, "container", id)
}

func findIn[T any](s *Server, all map[string]T, what, id string) (none T, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if found, ok := all[id]; ok {
		return found, nil
	}
	const shortest = 8
	for full, found := range all {
		if len(id) >= shortest && strings.HasPrefix(full, id) {
			return found, nil
		}
	}
	return none, status.Errorf(codes.NotFound, "%s %q not found", what, id)
}

func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// nanoseconds converts a time to the CRI's format, in which 0 means never.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func (s *Server) path(parts ...string) string {
	return filepath.Join(append([]string{s.Dir}, parts...)...)
}
