// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// events are told to who listens. The kubelet does (KEP-3386): otherwise it would ask once a second what has changed.
type events struct {
	mutex     sync.Mutex
	listeners map[chan *runtimeapi.ContainerEventResponse]struct{}
}

// backlog is how many events may wait for a listener. One that is slower misses some, and asks from time to time anyway.
const backlog = 1000

func (e *events) listen() (events chan *runtimeapi.ContainerEventResponse, stop func()) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.listeners == nil {
		e.listeners = map[chan *runtimeapi.ContainerEventResponse]struct{}{}
	}
	events = make(chan *runtimeapi.ContainerEventResponse, backlog)
	e.listeners[events] = struct{}{}
	return events, func() {
		e.mutex.Lock()
		defer e.mutex.Unlock()
		delete(e.listeners, events)
	}
}

func (e *events) send(event *runtimeapi.ContainerEventResponse) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for listener := range e.listeners {
		select {
		case listener <- event:
		default:
		}
	}
}

// tell tells what has happened to a container, with all of its Pod.
func (s *Server) tell(c *containerRecord, what runtimeapi.ContainerEventType) {
	event := &runtimeapi.ContainerEventResponse{ContainerId: c.ID, ContainerEventType: what, CreatedAt: time.Now().UnixNano()}
	b, err := s.sandbox(c.Sandbox)
	if err != nil {
		return // its Pod has gone
	}
	event.PodSandboxStatus = s.statusOf(b)
	for _, other := range s.of(b.ID) {
		if what == runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT && other == c {
			continue
		}
		event.ContainersStatuses = append(event.ContainersStatuses, s.describe(other))
	}
	s.events.send(event)
}

// GetContainerEvents tells what happens from now on.
func (s *Server) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	events, stop := s.events.listen()
	defer stop()
	for {
		select {
		case event := <-events:
			if err := stream.Send(event); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}
