// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lva.io/operators/clusters/egress"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

// unusedPort returns a port at which no program listens.
func unusedPort(t *testing.T) int {
	t.Helper()
	c, err := claimAny() // released at once: among so many it stays unused for a while
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	return c.port
}

// generated returns a submission whose webhooks are not registered, so that it needs no cluster.
func generated(t *testing.T, files string) *installed {
	t.Helper()
	b := stagetest.Builder(t, samples.Lay(t, files))
	manifests, err := b.Generate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &installed{Submission: stage.Submission{Builder: b, Manifests: manifests}}
}

func TestOperatorsWithTheSameFixedPortTakeTurns(t *testing.T) {
	t.Parallel()
	port := unusedPort(t)
	prepare := func(ctx context.Context, onWait func(string)) (stage.Operator, error) {
		return generated(t, operatorWith(fixedPort, samples.Webhook+serviceAt(port))).Prepare(ctx, onWait)
	}
	first, err := prepare(t.Context(), func(reason string) { t.Errorf("the first operator waits: %s", reason) })
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("port %d, at which this operator's webhooks listen, "+
		"is used by another operator that is graded or run on this machine"+
		" (by process %d)", port, os.Getpid())

	// An operator whose wait is cut short learns which process it waited for.
	ctx, cancel := context.WithCancelCause(t.Context())
	impatient := errors.New("enough")
	if _, err := prepare(ctx, func(string) { cancel(impatient) }); !errors.Is(err, impatient) ||
		err.Error() != want+": enough" {
		t.Errorf("Prepare() with a cancelled context: error = %v", err)
	}

	// A claim does not wait forever, either.
	if _, err := claimPort(t.Context(), port, time.Second, func(string) {}); err == nil ||
		!strings.HasPrefix(err.Error(), want+", and has been for 1s: stop it") {
		t.Errorf("claimPort() after the timeout: error = %v", err)
	} else if _, is := errors.AsType[*submission.EnvironmentError](err); !is {
		t.Errorf("got error type %T, want *submission.EnvironmentError", err)
	}

	// The others get their turn.
	reasons := make(chan string, 2)
	done := make(chan error, 2)
	for range 2 {
		go func() {
			waited, err := prepare(t.Context(), func(reason string) { reasons <- reason })
			if err == nil {
				err = waited.Close()
			}
			done <- err
		}()
	}
	for range 2 {
		if reason := <-reasons; reason != want {
			t.Errorf("unexpected reason for the wait: %s", reason)
		}
	}
	select {
	case err := <-done:
		t.Errorf("an operator did not wait: error = %v", err)
	default:
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestPortIsClaimedOnlyOnce(t *testing.T) {
	t.Parallel()
	held := map[int]bool{}
	for range 20 {
		c, err := claimAny()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if held[c.port] {
			t.Fatalf("port %d was claimed twice", c.port)
		}
		held[c.port] = true
	}
}

// victimVariable makes this test binary a run with webhooks that the test kills. It holds a port and a socket.
const victimVariable = "OPERATOR_LABS_TEST_VICTIM"

func victim() {
	if os.Getenv(markOfOperator) != "" {
		operatorOfVictim()
		return
	}
	err := func() error {
		port, socket, _ := strings.Cut(os.Getenv(victimVariable), " ")
		number, err := strconv.Atoi(port)
		if err != nil {
			return err
		}
		if _, err := claimPort(context.Background(), number, portPatience, func(string) {}); err != nil {
			return err
		}
		if _, err := egress.Listen(socket); err != nil {
			return err
		}
		scope, err := process.NewScope(process.Options{})
		if err != nil {
			return err
		}
		executable, err := os.Executable()
		if err != nil {
			return err
		}
		_, err = scope.Start(process.Spec{
			Path:   executable,
			Env:    append(os.Environ(), markOfOperator+"=1"),
			Stdout: os.Stdout,
			Stderr: os.Stderr,
		})
		return err
	}()
	if err != nil {
		fmt.Println(err)
		return
	}
	select {}
}

const markOfOperator = "OPERATOR_LABS_TEST_OPERATOR"

func operatorOfVictim() {
	port, _, _ := strings.Cut(os.Getenv(victimVariable), " ")
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer listener.Close()
	fmt.Println("listens")
	select {}
}

func TestKilledRunReleasesItsPort(t *testing.T) {
	t.Parallel()
	port := unusedPort(t)
	temporary := t.TempDir()
	socket := filepath.Join(temporary, "egress.sock")
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := exec.Command(executable)
	killed.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", victimVariable, port, socket), "TMPDIR="+temporary)
	output, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = killed.Process.Kill() })
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "listens\n" {
		t.Fatalf("got line %q, error = %v", line, err)
	}
	if _, err := tryClaim(port); !errors.Is(err, errClaimed) {
		t.Fatalf("the run has not claimed its port: error = %v", err)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// At once: its operator may not have ended yet.
	c, err := claimPort(t.Context(), port, portPatience, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	router, err := egress.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	_ = killed.Wait()
}

// The operator of a run that was killed may end a moment after the run.
func TestClaimWaitsForAPortToBecomeFree(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	done := make(chan error, 1)
	go func() {
		c, err := claimPort(t.Context(), port, portPatience, func(string) {})
		if err == nil {
			c.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("claimPort() did not wait: error = %v", err)
	case <-time.After(3 * portPoll):
	}
	listener.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestOperatorClaimsFewPorts(t *testing.T) {
	t.Parallel()
	ports := ""
	for port := range maxPorts + 1 {
		ports += fmt.Sprintf("  - {name: p%d, port: %d, targetPort: %d}\n", port, port+1, firstPort+port)
	}
	service := strings.Replace(samples.Service, "  - port: 443\n", ports+"  - port: 443\n", 1)
	_, err := generated(t, operatorWith(fixedPort, samples.Webhook+service)).Prepare(t.Context(), func(string) {})
	if problem := stagetest.ProblemOf(t, err); !strings.Contains(problem.Reason, "at most 16 are allowed") {
		t.Errorf("got %q, want that the operator has too many ports", problem.Reason)
	}
}

// The API server refuses such a Service later.
func TestServiceWithInvalidNameGetsNoCertificate(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"schöner-service", "a/b", strings.Repeat("a", 300)} {
		service := strings.Replace(serviceAt(unusedPort(t)), "name: webhook-service", "name: "+name, 1)
		prepared, err := generated(t, operatorWith(fixedPort, samples.Webhook+service)).Prepare(t.Context(), func(string) {})
		if err != nil {
			t.Errorf("the Service %s: Prepare(): %v", name, err)
			continue
		}
		if err := prepared.Close(); err != nil {
			t.Error(err)
		}
	}
}
