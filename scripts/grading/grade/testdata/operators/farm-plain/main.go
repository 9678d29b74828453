// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command plainfarm serves llamas by HTTP and JSON. It uses no library of Kubernetes: objects are maps, and its
// answers imitate those of an API server.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

func main() {
	port := flag.Int("secure-port", 9443, "the port at which it serves HTTPS")
	certificate := flag.String("tls-cert-file", "", "its certificate, PEM")
	key := flag.String("tls-private-key-file", "", "the key of its certificate, PEM")
	data := flag.String("data-dir", "/data", "the folder of herd.jsonl, which it writes")
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "how to get to the cluster; if empty, as a Pod does")
	flag.Parse()
	if err := serve(*port, *certificate, *key, *data, *kubeconfig); err != nil {
		log.Fatal(err)
	}
}

func serve(port int, certificate, key, data, kubeconfig string) error {
	store, err := open(filepath.Join(data, "herd.jsonl"))
	if err != nil {
		return err
	}
	api, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	ending, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	f := &farm{store: store, api: api, ending: ending, watches: map[string]int{}}
	server := &http.Server{
		Addr: ":" + strconv.Itoa(port), Handler: f, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServeTLS(certificate, key) }()
	select {
	case err := <-ended:
		return err
	case <-ending.Done():
	}
	limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(limited), store.file.Close())
}
