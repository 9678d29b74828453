// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// The program is a small web site: one page, and the answers to ACME challenges.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"lva.io/operators/labs/06-acme/internal/web"
)

// Limits in time: a client that is slow must not keep a connection for ever, and a site that ends answers its last
// requests.
const (
	headerTimeout = 5 * time.Second
	endTimeout    = 5 * time.Second
)

func main() {
	address := flag.String("address", ":8080", "address to listen at")
	title := flag.String("title", "Icecream", "title of the page")
	order := flag.String("order", "/etc/acme-order", "folder with the ACME order that is to be proved; it may be missing")
	flag.Parse()
	if err := run(*address, web.NewSite(*title, *order)); err != nil {
		log.Fatal(err)
	}
}

// run serves until the program is asked to end, as the kubelet does with SIGTERM.
func run(address string, site http.Handler) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return serve(ctx, listener, site, endTimeout)
}

// serve serves until ctx is done. Then it gives pending requests the time patience to complete.
func serve(ctx context.Context, listener net.Listener, site http.Handler, patience time.Duration) error {
	server := &http.Server{Handler: site, ReadHeaderTimeout: headerTimeout}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err := server.Shutdown(limited)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close() // A client that is slow does not make the end a failure.
		}
		ended <- err
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}
