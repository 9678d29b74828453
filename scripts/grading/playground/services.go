// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"time"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/services"
)

// serveServices runs the services that the operator calls besides the API server, and returns the variables with their
// URLs. The services store their files in folder.
func serveServices(lab *manifest.Lab, folder string) (environment []string, end func() error, err error) {
	var closers []func() error
	end = func() error {
		var errs []error
		for _, closes := range closers {
			errs = append(errs, closes())
		}
		return errors.Join(errs...)
	}
	if lab == nil {
		return nil, end, nil
	}
	for _, service := range services.Named(lab.Services) {
		kept, err := service.Open(filepath.Join(folder, service.Name+".json"))
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		listener, err := listenAt(service.Address)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("listening for the %s: %w", service.Name, err), end())
		}
		server := &http.Server{Handler: kept, ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = server.Serve(listener) }() // ends with Close
		closers = append(closers, server.Close)
		environment = append(environment, service.Variable+"=http://"+listener.Addr().String())
	}
	return environment, end, nil
}

// listenAt listens at an address, or at any port of this machine if the address is in use.
func listenAt(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	return listener, err
}
