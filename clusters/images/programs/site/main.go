// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command site is a web server for the folder /site: the documents, as make docs builds them.
//
//	site [ADDRESS]    Default: :8080
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"
)

const (
	folder = "/site"
	// notFound is the page that the folder has for addresses without one.
	notFound = "404.html"
	// grace is how long requests may take that were accepted before the end.
	grace = 5 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		stop()
		os.Exit(1) //nolint:gocritic // nothing else is deferred
	}
}

func run(ctx context.Context, args []string) error {
	address := ":8080"
	switch len(args) {
	case 0:
	case 1:
		address = args[0]
	default:
		return fmt.Errorf("usage: site [ADDRESS], and not %q", args)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return serve(ctx, listener, handler(os.DirFS(folder)))
}

// handler serves the files of a site. An address without a file gets the site's own page for that.
func handler(site fs.FS) http.Handler {
	files := http.FileServerFS(site)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		if name == "" {
			name = "."
		}
		if _, err := fs.Stat(site, name); errors.Is(err, fs.ErrNotExist) {
			page, err := fs.ReadFile(site, notFound)
			if err == nil {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				w.WriteHeader(http.StatusNotFound)
				_, _ = bytes.NewReader(page).WriteTo(w)
				return
			}
		}
		files.ServeHTTP(w, r)
	})
}

// serve ends when ctx does. Requests that were accepted by then are answered first.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		return server.Shutdown(ending)
	}
}
