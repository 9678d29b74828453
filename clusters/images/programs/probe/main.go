// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command probe is a web server and a web client in one image, with which tests of a cluster find out which Pods can
// reach each other. The server answers with its host name, so that the client sees which Pod answered.
//
//	probe serve [ADDRESS]            answers each request with its host name and the client. Default: :8080
//	probe files FOLDER [ADDRESS]     serves the files of a folder. Default: :8080
//	probe get [-n TIMES] [-t TIME] URL
//	                                 prints the answers. Exit code 1 if one of the requests got none
//	probe resolve [-t TIME] NAME     prints the addresses of a name. Exit code 1 if there are none
//
// If it is called as tar, it does what `kubectl cp` needs in a container.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const usage = "usage: probe serve [ADDRESS] | probe files FOLDER [ADDRESS] " +
	"| probe get [-n TIMES] [-t TIME] URL | probe resolve [-t TIME] NAME"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name, err := filepath.Base(os.Args[0]), error(nil)
	if name == "tar" {
		err = runTar(os.Args[1:], os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		stop()
		os.Exit(1) //nolint:gocritic // nothing else is deferred
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	times := flags.Int("n", 1, "how many requests, one after the other")
	patience := flags.Duration("t", 3*time.Second, "how long to wait for each answer")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch subject := flags.Arg(0); {
	case args[0] == "serve":
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		return serve(ctx, subject, introduction(name))
	case args[0] == "files" && subject != "":
		return serve(ctx, flags.Arg(1), files(os.DirFS(subject)))
	case args[0] == "get" && subject != "":
		return get(ctx, out, subject, *times, *patience)
	case args[0] == "resolve" && subject != "":
		return resolve(ctx, out, subject, *patience)
	}
	return errors.New(usage)
}

// introduction answers each request with a name, and the address of the client.
func introduction(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s answers %s\n", name, r.RemoteAddr)
	})
}

// serve serves at an address until the context ends. Default: :8080.
func serve(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: cmp.Or(address, ":8080"), ReadHeaderTimeout: 5 * time.Second, Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		// Accepted requests are answered. Requests that don't end are cut off.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return server.Shutdown(ending)
	}
}

// get makes each request over a connection of its own, because a connection stays with the Pod that it reached first.
func get(ctx context.Context, out io.Writer, url string, times int, patience time.Duration) error {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	failed := 0
	for range times {
		if err := once(ctx, client, out, url); err != nil {
			fmt.Fprintln(os.Stderr, "probe:", err)
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d requests got no answer", failed, times)
	}
	return nil
}

func once(ctx context.Context, client *http.Client, out io.Writer, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, answer.Status)
	}
	_, err = io.Copy(out, answer.Body)
	return err
}

func resolve(ctx context.Context, out io.Writer, name string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		fmt.Fprintln(out, address)
	}
	return nil
}
