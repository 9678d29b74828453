// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command serve runs the freezer as a program of its own, in the image operator-labs/freezer of a cluster. It keeps the
// ledger in memory, so the ledger is lost when the process ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"lva.io/operators/scripts/services/freezer"
)

// headerTimeout is how long a client may take to send the headers of a request.
const headerTimeout = 10 * time.Second

func main() {
	address := flag.String("address", ":8080", "address at which the freezer listens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *address); err != nil {
		fmt.Fprintf(os.Stderr, "The freezer cannot go on: %v\n", err)
		os.Exit(1)
	}
}

// serve answers requests until the context ends.
func serve(ctx context.Context, address string) error {
	server := &http.Server{Addr: address, Handler: freezer.New(), ReadHeaderTimeout: headerTimeout}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	fmt.Printf("The freezer listens at %s\n", address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
