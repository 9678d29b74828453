// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lva.io/operators/clusters/longtest"
)

// withPlayground creates a checkout with a playground without a node.
func withPlayground(t *testing.T) string {
	t.Helper()
	root := newCheckout(t)
	// Its processes stay, so they must not belong to a command that a test checks.
	wantDone(t, root, "up", "--node=false")
	return root
}

// newCheckout creates a checkout that can run operators on a playground of its own, which ends with the test. Its path
// is longer than the name of a socket may be.
func newCheckout(t *testing.T) string {
	t.Helper()
	from := findCheckout(t)
	if err := from.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := from.ControllerGen(t.Context()); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "student's work", strings.Repeat("deep/", 30))
	if err := os.MkdirAll(filepath.Join(root, ".cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clusters", "labs", "scripts", "solutions", ".cache/bin", ".cache/controlplane"} {
		if err := os.Symlink(filepath.Join(from.Root, name), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if got := run(t, root, "down"); got.code != 0 {
			t.Errorf("lab down: %s", got.stderr)
		}
	})
	return root
}

// running is a command that runs until it gets a signal.
type running struct {
	*exec.Cmd
	t      *testing.T
	output *bufio.Reader
	runs   string
}

// runOperator starts `lab run`, and waits until it prints where the playground is. out is its output up to that line.
func runOperator(t *testing.T, root string, args ...string) (r *running, out string) {
	t.Helper()
	c, runs := command(t, root, append([]string{"run"}, args...)...)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	c.Stdout, c.Stderr = write, write
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	r = &running{Cmd: c, t: t, output: bufio.NewReader(read), runs: runs}
	t.Cleanup(func() { _ = c.Process.Kill() })
	for !strings.HasSuffix(out, "\n\n") {
		line, err := r.output.ReadString('\n')
		out += line
		if err != nil {
			t.Fatalf("the operator ended:\n%s", out)
		}
	}
	return r, out
}

// end ends it by a signal, and returns its output since then.
func (r *running) end(signal syscall.Signal) (code int, out string) {
	r.t.Helper()
	if err := r.Process.Signal(signal); err != nil {
		r.t.Fatal(err)
	}
	rest, _ := io.ReadAll(r.output) // until all processes have closed it
	_ = r.Wait()
	wantNothing(r.t, r.runs)
	return r.ProcessState.ExitCode(), string(rest)
}

// sees waits until an operator's API server responds to a new icecream with some words.
func sees(t *testing.T, root, name, flavour, want string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "icecream.yaml")
	icecream := "apiVersion: demo.lva.io/v1\nkind: Icecream\n" +
		"metadata: {name: " + name + "}\nspec: {flavour: [" + flavour + "], topping: [cream]}\n"
	if err := os.WriteFile(file, []byte(icecream), 0o600); err != nil {
		t.Fatal(err)
	}
	giveUp := time.After(30 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		got := run(t, root, "kubectl", "create", "-f", file)
		if strings.Contains(got.stdout+got.stderr, want) {
			return
		}
		select {
		case <-tick.C:
		case <-giveUp:
			t.Fatalf("creating an icecream of %s: got %q, want %q", flavour, got.stdout+got.stderr, want)
		}
	}
}

// stock waits until the freezer's response contains some words.
func stock(t *testing.T, url, want string) {
	t.Helper()
	giveUp := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(body), want) {
			return
		}
		select {
		case <-tick.C:
		case <-giveUp:
			t.Fatalf("the freezer has %s, want %s", body, want)
		}
	}
}

// freezerIn returns the URL in the curl command that `lab run` prints.
func freezerIn(t *testing.T, out string) string {
	t.Helper()
	_, after, ok := strings.Cut(out, "\ncurl ")
	url, _, _ := strings.Cut(after, " ")
	if !ok || !strings.HasSuffix(url, "/v1/stock") {
		t.Fatalf("the output lacks the freezer's address:\n%s", out)
	}
	return url
}

// The output of `make up` is all that a shell needs, for people and for their scripts.
func TestPlaygroundShell(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := withPlayground(t)
	lines := run(t, root, "up", "--node=false").stdout
	// This machine may have a kubectl, which would come first.
	system := t.TempDir()
	for _, name := range []string{"sh", "dirname"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(system, name)); err != nil {
			t.Fatal(err)
		}
	}
	shell := func(script string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-c", lines+script)
		c.Dir = t.TempDir()
		c.Env = []string{"PATH=" + system, "HOME=" + c.Dir}
		output, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", script, err)
		}
		return string(output)
	}
	if got := shell("sh -c 'kubectl get namespaces --output=name'"); !strings.Contains(got, "namespace/kube-system\n") {
		t.Errorf("kubectl in a script printed %q", got)
	}
	if got := shell(
		"unset KUBECONFIG; kubectl get namespaces --output=name",
	); !strings.Contains(got, "namespace/kube-system\n") {
		t.Errorf("kubectl printed %q", got)
	}
	if got := shell("KUBECONFIG=/nowhere kubectl config get-clusters"); strings.Count(got, "\n") != 1 {
		t.Errorf("kubectl with another kubeconfig printed %q", got)
	}
	if got := shell("command -v lab"); got != filepath.Join(root, ".cache", "bin", "lab")+"\n" {
		t.Errorf("`command -v lab` printed %q", got)
	}
	if status := run(t, root, "status"); !strings.HasSuffix(status.stdout, lines) {
		t.Errorf("want the status to end with\n%s\ngot\n%s", lines, status.stdout)
	}
}

// Each step begins with the state that the previous one left, as for a user.
func TestRunOperatorsAtPlayground(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := withPlayground(t)

	// Another program has the freezer's usual port.
	taken, err := net.Listen("tcp", "127.0.0.1:8018")
	if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatal(err)
	}
	operator, out := runOperator(t, root, "3", "--solution")
	url := freezerIn(t, out)
	if strings.Contains(url, ":8018/") || strings.Contains(out, "webhooks") {
		t.Errorf("got output\n%s", out)
	}
	sees(t, root, "sundae", "vanilla", "created")
	stock(t, url, `{"kind":"topping","ingredient":"cream","count":999}`)
	if code, out := operator.end(syscall.SIGINT); code != 0 || strings.Contains(out, "stay registered") {
		t.Errorf("exit code after Ctrl-C = %d:\n%s", code, out)
	}
	if taken != nil {
		taken.Close()
	}

	// The freezer keeps its content, and identifies the lab by its folder. Only one operator runs at a time.
	operator, out = runOperator(t, root, "--dir", filepath.Join("solutions", "03-finalizer"))
	stock(t, freezerIn(t, out), `{"kind":"topping","ingredient":"cream","count":999}`)
	if got := run(t, root, "run", "2", "--solution"); got.code != 1 ||
		!strings.Contains(got.stderr,
			"another operator is running against the playground: stop it first, with Ctrl-C in its terminal") {
		t.Errorf("a second operator: exit code %d, %s", got.code, got.stderr)
	}
	if got := run(t, root, "kubectl", "delete", "icecream", "sundae", "--timeout=30s"); got.code != 0 {
		t.Error(got.stderr)
	}
	stock(t, freezerIn(t, out), `{"kind":"topping","ingredient":"cream","count":1000}`)
	// An operator that knows the finalizers is not warned of them.
	sees(t, root, "left", "vanilla", "created")
	if got := run(t, root, "kubectl", "wait", "--for=jsonpath={.metadata.finalizers[0]}=demo.lva.io/finalizer",
		"icecream/left", "--timeout=30s"); got.code != 0 {
		t.Error(got.stderr)
	}
	operator.end(syscall.SIGKILL)
	if got := run(t, root, "zombie"); got.code != 0 {
		t.Error(got.stderr)
	}
	operator, out = runOperator(t, root, "3", "--solution")
	if strings.Contains(out, "can't be deleted") {
		t.Errorf("got output\n%s", out)
	}
	operator.end(syscall.SIGINT)

	// The API server calls webhooks by their Service. They fail closed when their operator is killed.
	operator, out = runOperator(t, root, "4", "--solution")
	const warning = "The playground has objects with the finalizer demo.lva.io/finalizer of lab 3: left.\n" +
		"This operator does not remove it, so they can't be deleted while it runs. " +
		"`make run-3` runs the operator that does;\n" +
		"`make down` removes everything.\n"
	if !strings.Contains(out, "Its webhooks are registered: ") || strings.Count(out, "finalizer") != 2 ||
		!strings.Contains(out, warning) {
		t.Errorf("got output\n%s", out)
	}
	sees(t, root, "matcha", "matcha", `Unsupported value: "matcha"`)
	sees(t, root, "one", "vanilla", "created")
	operator.end(syscall.SIGKILL)
	sees(t, root, "two", "vanilla", "failed calling webhook")

	// The next run continues with the state that the killed one left.
	operator, _ = runOperator(t, root, "4", "--solution")
	sees(t, root, "two", "vanilla", "created")
	code, out := operator.end(syscall.SIGINT)
	if code != 0 || !strings.Contains(out, "Its webhooks are still registered, and no program serves them") {
		t.Errorf("exit code after Ctrl-C = %d:\n%s", code, out)
	}
	sees(t, root, "three", "vanilla", "failed calling webhook")

	// Another lab's operator removes the webhooks.
	operator, _ = runOperator(t, root, "2", "--solution")
	sees(t, root, "matcha", "matcha", "created")
	operator.end(syscall.SIGINT)
}
