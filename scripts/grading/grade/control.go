// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"lva.io/operators/clusters/socket"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

// serveControl serves the requests of the checks. The socket is in the run folder, which only our user can enter.
// Without an operator (nil), the checks can request only the contents of the submission's folder.
func (s *subject) serveControl(scripts *scripts, operator *operator) (path string, end func(), err error) {
	path = filepath.Join(s.builder.Scope.Dir, "control")
	listener, err := socket.Listen(path)
	if err != nil {
		return "", nil, fmt.Errorf("listening for the checks: %w", err)
	}
	routes := http.NewServeMux()
	if operator != nil {
		operator.routes(routes)
	}
	handle(routes, "POST "+protocol.Submission+"{path...}", func(r *http.Request) (any, error) {
		var args []string
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			return nil, fmt.Errorf("reading the arguments: %w", err)
		}
		return scripts.run(r.Context(), r.PathValue("path"), args)
	})
	routes.HandleFunc("GET "+protocol.Submission+"{path...}", func(w http.ResponseWriter, r *http.Request) {
		content, err := s.builder.ReadFile(r.PathValue("path"))
		if err != nil {
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		_, _ = w.Write(content)
	})
	handle(routes, "GET "+protocol.Manifests, func(r *http.Request) (any, error) {
		return s.kustomized(r.Context(), scripts.kubectl)
	})
	server := &http.Server{Handler: routes}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return path, func() { _ = server.Close() }, nil
}

// kustomized returns the objects of the submission's config/default. The error is fs.ErrNotExist if kustomize can't
// build it, which may be the machine's fault: no check depends on the reason.
func (s *subject) kustomized(ctx context.Context, kubectl string) ([]map[string]any, error) {
	if kubectl == "" {
		return nil, fmt.Errorf("building config/default without kubectl: %w", fs.ErrNotExist)
	}
	built, err := s.builder.Kustomize(ctx, kubectl)
	_, wrong := errors.AsType[*submission.Problem](err)
	_, fault := errors.AsType[*submission.EnvironmentError](err)
	if wrong || fault {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	objects := []map[string]any{}
	for _, object := range built {
		objects = append(objects, object.Object)
	}
	return objects, nil
}

// handle registers a function that answers the requests that match a pattern, in JSON.
func handle(routes *http.ServeMux, pattern string, do func(*http.Request) (answer any, err error)) {
	routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		answer, err := do(r)
		if err != nil {
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		_ = json.NewEncoder(w).Encode(answer) // this fails if the client has ended
	})
}

// routes registers the requests of the checks to an operator.
func (o *operator) routes(routes *http.ServeMux) {
	injector := o.injector
	handle(routes, "POST "+protocol.StopOperator, func(r *http.Request) (any, error) {
		var options protocol.Stop
		if err := json.NewDecoder(r.Body).Decode(&options); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("reading how to stop the operator: %w", err)
		}
		return o.stopped(cmp.Or(options.Grace, stage.StopGrace))
	})
	handle(routes, "POST "+protocol.KillOperator, func(*http.Request) (any, error) { return nil, o.stop(0) })
	handle(routes, "POST "+protocol.StartOperator, func(r *http.Request) (any, error) {
		var options protocol.Start
		if err := json.NewDecoder(r.Body).Decode(&options); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("reading how to start the operator: %w", err)
		}
		if err := o.startAs(options); err != nil {
			return nil, err
		}
		if server := o.server(); server != nil {
			return nil, server.AwaitListening(r.Context())
		}
		return nil, nil
	})
	handle(routes, "POST "+protocol.UpgradeOperator, func(r *http.Request) (any, error) {
		return nil, o.upgrade(r.Context())
	})
	handle(routes, "POST "+protocol.Arm, func(r *http.Request) (any, error) {
		var schedule faults.Schedule
		if err := json.NewDecoder(r.Body).Decode(&schedule); err != nil {
			return nil, fmt.Errorf("reading the schedule: %w", err)
		}
		return nil, injector.Arm(schedule)
	})
	handle(routes, "POST "+protocol.Disarm, func(*http.Request) (any, error) { injector.Disarm(); return nil, nil })
	handle(routes, "GET "+protocol.OperatorUsage, func(*http.Request) (any, error) { return o.usage(), nil })
	handle(routes, "GET "+protocol.OperatorLog, func(r *http.Request) (any, error) {
		since, err := strconv.ParseInt(r.URL.Query().Get(protocol.Since), 10, 64)
		return protocol.Logged{Size: o.logged(), Errors: o.findings(since).Errors}, err
	})
	handle(routes, "GET "+protocol.FaultLog, func(r *http.Request) (any, error) {
		last, err := strconv.Atoi(r.URL.Query().Get(protocol.Since))
		return slices.DeleteFunc(injector.Log(), func(e faults.Entry) bool { return e.ID <= last }), err
	})
	handle(routes, "GET "+protocol.LastAction, func(*http.Request) (any, error) { return lastAction(injector.Log()), nil })
}

// lastAction is the time of the operator's last request that counts. Watches and leases do not count: an idle
// operator renews them, too.
func lastAction(log []faults.Entry) time.Time {
	for _, entry := range slices.Backward(log) {
		if entry.Number > 0 {
			return entry.Time
		}
	}
	return time.Time{}
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	case errors.Is(err, errNoSuchFlag):
		return http.StatusUnprocessableEntity
	case errors.Is(err, errNotAdjustable):
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}
