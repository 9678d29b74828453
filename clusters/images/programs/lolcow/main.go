// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command lolcow is a web server whose cow says a greeting, as text for curl and as a page for browsers. The operator
// of lab 08 runs it.
//
//	lolcow [ADDRESS]    serves GET / and GET /healthz. Default: :8080
//
// The greeting is the environment variable GREETING. Without one, the cow says Moo.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv("GREETING")); err != nil {
		fmt.Fprintln(os.Stderr, "lolcow:", err)
		stop()
		os.Exit(1) //nolint:gocritic // nothing else is deferred
	}
}

// run serves the greeting until ctx ends.
func run(ctx context.Context, args []string, greeting string) error {
	address := ":8080"
	switch len(args) {
	case 0:
	case 1:
		address = args[0]
	default:
		return fmt.Errorf("usage: lolcow [ADDRESS], and not %q", args)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return serve(ctx, listener, handler(greeting))
}

// serve ends when ctx does. Requests that were accepted by then are answered first, within five seconds.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return server.Shutdown(ending)
	}
}
