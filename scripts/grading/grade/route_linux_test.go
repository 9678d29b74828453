// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage/stagetest"
)

// withoutRoute makes this test binary run on a machine without a network, whose only interface is lo.
const withoutRoute = "OPERATOR_LABS_TEST_WITHOUT_ROUTE"

// A laptop on a train and a container without a network have only lo.
func TestGradingNeedsNoRoute(t *testing.T) {
	longtest.Proof(t)
	if os.Getenv(withoutRoute) != "" {
		gradeWithoutRoute(t)
		return
	}
	t.Parallel()
	machines := map[string]*syscall.SysProcAttr{"as an ordinary user": {
		Cloneflags:  syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}}
	if os.Getuid() == 0 {
		machines["as root"] = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	}
	for name, machine := range machines {
		t.Run(name, func(t *testing.T) {
			var output bytes.Buffer
			run := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()[:strings.IndexByte(t.Name(), '/')]+"$", "-test.v")
			run.Env = append(os.Environ(), withoutRoute+"=true")
			run.Stdout, run.Stderr, run.SysProcAttr = &output, &output, machine
			machine.Pdeathsig = syscall.SIGKILL
			if err := run.Start(); err != nil {
				if os.Getenv(stagetest.NamespacesVariable) == "required" {
					t.Fatalf("%s=required, but network namespaces can't be created: %v", stagetest.NamespacesVariable, err)
				}
				t.Skipf("network namespaces can't be had, see CI, which sets %s=required: %v", stagetest.NamespacesVariable, err)
			}
			if err := run.Wait(); err != nil || !strings.Contains(output.String(), "--- PASS") {
				t.Errorf("without a route: %v\n%s", err, output.String())
			}
		})
	}
}

func gradeWithoutRoute(t *testing.T) {
	t.Helper()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Start(t.Context(), have.ControlPlane); err == nil || !strings.HasSuffix(err.Error(),
		"this machine does not reach itself at 127.0.0.1: "+
			"its loopback interface is down; let root bring it up: ip link set lo up") {
		t.Errorf("without lo, Start() error = %v", err)
	}
	bringUp(t, "lo")
	if routes, err := os.ReadFile("/proc/net/route"); err != nil || bytes.Count(routes, []byte("\n")) != 1 {
		t.Fatalf("there are routes: %s (%v)", routes, err)
	}
	options := alone(t, played(t, "02-labels", unpack(t, "labels")))
	options.Seed = 1 // a bad day that it survives
	got := grade(t.Context(), t, options)
	if got.Outcome != report.Graded || got.Score != got.MaxScore {
		t.Errorf("outcome is %s (%s) with %d of %d points", got.Outcome, got.Reason, got.Score, got.MaxScore)
	}
}

func bringUp(t *testing.T, name string) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
}
