// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"lva.io/operators/scripts/checks/protocol"
)

// control listens for the checks, which stop and start the operator. The socket lies in the run folder, which only our
// user can enter.
func (o *operator) control() (socket string, end func(), err error) {
	socket = filepath.Join(o.run.workshop.Scope.Dir, "control")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return "", nil, fmt.Errorf("listening for the checks: %w", err)
	}
	routes := http.NewServeMux()
	handle := func(path string, do func() error) {
		routes.HandleFunc("POST "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := do(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	handle(protocol.StopOperator, func() error { o.stop(true); return nil })
	handle(protocol.KillOperator, func() error { o.stop(false); return nil })
	handle(protocol.StartOperator, o.start)
	server := &http.Server{Handler: routes}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return socket, func() { _ = server.Close() }, nil
}
