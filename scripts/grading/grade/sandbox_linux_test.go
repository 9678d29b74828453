// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/report"
)

// spy creates a submission that spies, and passes it the paths and addresses that it could know. It tries everything,
// or only some of it.
func spy(t *testing.T, only ...string) (_ Options, other string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the spy makes system calls by the numbers of amd64")
	}
	dir := unpack(t, "spies")
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	other = t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	deployment := fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager}
spec:
  template:
    spec:
      containers:
      - name: manager
        env:
        - {name: SPY_CHECKOUT, value: %q}
        - {name: SPY_OTHER, value: %q}
        - {name: SPY_CLOSED, value: %q}
        - {name: SPY_CACHES, value: %q}
        - {name: SPY_ONLY, value: %q}
`, have.Root, other, listener.Addr(), t.TempDir(), strings.Join(only, ";"))
	manager := filepath.Join(dir, "config", "manager")
	if err := os.MkdirAll(manager, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(manager, "manager.yaml"), []byte(deployment), 0o600); err != nil {
		t.Fatal(err)
	}
	return options(t, "2", dir), other
}

// succeeded returns the spy's successes.
func succeeded(t *testing.T, got *report.Report) (all []string) {
	t.Helper()
	tried := false
	for _, line := range got.OperatorLog {
		if name, ok := strings.CutPrefix(line, "SUCCEEDED: "); ok {
			all = append(all, name)
		}
		tried = tried || strings.HasPrefix(line, "TRIED: ")
	}
	if !tried {
		t.Fatalf("the spy did not try everything: %s (%s)\n%s", got.Outcome, got.Reason, strings.Join(got.OperatorLog, "\n"))
	}
	return all
}

func TestSandboxStopsSpy(t *testing.T) {
	t.Setenv("SECRET_OF_THE_GRADER", "secret")
	spying, other := spy(t)
	spying.Sandbox = SandboxRequired
	got := grade(t.Context(), t, spying)
	if got.Outcome == report.Error {
		if os.Getenv("OPERATOR_LABS_NAMESPACES") == "required" {
			t.Fatal(got.Reason)
		}
		t.Skip(got.Reason)
	}
	found := succeeded(t, got)
	if !slices.Contains(got.Environment.Walls, string(process.PrivateRoot)) {
		// Without a private root, it can see names and change modes.
		found = slices.DeleteFunc(found, func(name string) bool {
			return name == "see the checkout" || name == "open everybody's folder"
		})
	}
	if len(found) > 0 {
		t.Errorf("the spy succeeded: %s", strings.Join(found, "; "))
	}
	if content, err := os.ReadFile(filepath.Join(other, "secret")); err != nil || string(content) != "secret" {
		t.Errorf("the other submission's file is %q (%v)", content, err)
	}
}

// Without a sandbox, the same spy succeeds in much: its attempts would work.
func TestSpySucceedsWithoutSandbox(t *testing.T) {
	t.Parallel()
	attempts := []string{
		"read the run", "list the run's folder", "speak to the grader", "disarm the faults", "find a key",
		"see the checkout", "read a solution", "read a cache", "read another submission",
		"reach a service of the machine", "make an abstract socket", "follow a link out of its home",
		"have a shell read another's file",
	}
	spying, _ := spy(t, attempts...)
	spying.Sandbox = SandboxOff
	got := grade(t.Context(), t, alone(t, spying))
	found := succeeded(t, got)
	for _, attempt := range attempts {
		if !slices.Contains(found, attempt) {
			t.Errorf("the spy did not succeed: %s; successes: %s", attempt, strings.Join(found, "; "))
		}
	}
	if got.Environment.Walls != nil {
		t.Errorf("walls are %q, want none", got.Environment.Walls)
	}
}

func TestScriptsAreSandboxed(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	s.builder.Walled = true
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	const try = `kubectl version >/dev/null || exit 9
cat "$0" || ls "$(dirname "$PWD")/.." || ls "$HOME/../.." || echo x >> "$KUBECONFIG" || echo x > /tmp/spy || cat /etc/shadow || exit 4
exit 0`
	got, err := s.run(t.Context(), "zombie/try.sh", []string{"sh", "-c", try, secret})
	if err != nil || got.Exit != 4 {
		t.Errorf("the script ended with %+v, %v, want exit code 4", got, err)
	}
}
