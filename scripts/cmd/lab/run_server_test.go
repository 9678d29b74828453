// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lva.io/operators/clusters/longtest"
)

// A server that is an API of the playground is rebuilt and restarted when a file is saved, and keeps its stored
// objects. It leaves no registration without a server, even if the command is killed.
func TestRunServerAtPlayground(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := withPlayground(t)
	submission := filepath.Join(root, "mine")
	if err := os.CopyFS(submission, os.DirFS(filepath.Join(findCheckout(t).Root, "solutions", "07-llama"))); err != nil {
		t.Fatal(err)
	}
	get := func(want string, args ...string) {
		t.Helper()
		giveUp := time.After(time.Minute)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			got := run(t, root, append([]string{"kubectl"}, args...)...)
			if strings.Contains(got.stdout+got.stderr, want) {
				return
			}
			select {
			case <-tick.C:
			case <-giveUp:
				t.Fatalf("kubectl %s printed %q, want %q", strings.Join(args, " "), got.stdout+got.stderr, want)
			}
		}
	}
	const registered = "apiservice/v1alpha.farm.example.com"
	server, _ := runOperator(t, root, "7", "--dir", submission)
	get("130.5", "get", "llamas", "carla")
	get("patched", "patch", "llama", "carla", "--type=merge", "-p", `{"spec":{"weight":77.5}}`)
	file := filepath.Join(submission, "internal", "llama", "resource.go")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(
		file, []byte(strings.Replace(string(content), `Name: "Height"`, `Name: "Tallness"`, 1)), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	get("TALLNESS", "get", "llamas", "carla")
	get("77.5", "get", "llamas", "carla")
	if code, printed := server.end(syscall.SIGINT); code != 0 {
		t.Errorf("exit code after Ctrl-C = %d:\n%s", code, printed)
	}
	get("NotFound", "get", registered)

	server, _ = runOperator(t, root, "7", "--dir", submission)
	get("77.5", "get", "llamas", "carla")
	server.end(syscall.SIGKILL)
	get("v1alpha", "get", registered)
	wantDone(t, root, "up", "--node=false")
	get("NotFound", "get", registered)
}
