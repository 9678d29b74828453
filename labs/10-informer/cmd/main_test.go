// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A program that is asked to end, and ends, has not failed: with another exit code than 0 its Pod would count as
// failed. Here it is asked while the API server has not answered its first list. By then it has removed what an earlier
// start has left.
func TestTheEndIsNoErrorWhileTheCacheFills(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	folder := t.TempDir()
	kubeconfig := filepath.Join(folder, "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["silent"] = &clientcmdapi.Cluster{Server: "http://" + silent.Addr().String()}
	config.Contexts["silent"] = &clientcmdapi.Context{Cluster: "silent"}
	config.CurrentContext = "silent"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	leftover := filepath.Join(folder, ".authorized_keys-1.authorizedkey-controller")
	if err := os.WriteFile(leftover, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, options{kubeconfig: kubeconfig, file: filepath.Join(folder, "authorized_keys")})
	}()
	asked, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	if _, err := os.Stat(leftover); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file of an earlier start is still there: %v", err)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it did not end")
	}
}
