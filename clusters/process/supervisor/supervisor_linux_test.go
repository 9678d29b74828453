// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// The test is in a package of its own, because the supervisor's package would otherwise import what the test imports.
package supervisor_test

import (
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"lva.io/operators/clusters/process/supervisor"
)

// supervise runs this test binary as a supervisor, and returns all messages that it sends to its owner and its output.
func supervise(
	t *testing.T, program supervisor.Program, environment ...string,
) (messages []supervisor.Message, printed string) {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	owner, theirs := os.NewFile(uintptr(ends[0]), "supervisor"), os.NewFile(uintptr(ends[1]), "owner")
	defer owner.Close()
	var output strings.Builder
	program.Files = 3
	s := &exec.Cmd{
		Path: "/proc/self/exe", Args: program.CommandLine(supervisor.Reaper),
		Env: environment, Stderr: &output, ExtraFiles: []*os.File{theirs},
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	for {
		message, err := supervisor.Read(owner)
		if err != nil {
			return messages, output.String()
		}
		messages = append(messages, message)
	}
}

// Nearly every package that takes long to initialise needs fmt or reflect.
func TestSupervisorRunsBeforeOtherPackages(t *testing.T) {
	t.Parallel()
	messages, trace := supervise(t,
		supervisor.Program{Path: "/bin/true", Args: []string{"true"}, Dir: "/"},
		"GODEBUG=inittrace=1")
	if want := []supervisor.Message{
		{Kind: supervisor.Started},
		{Kind: supervisor.Ended},
	}; !reflect.DeepEqual(messages, want) {
		t.Errorf("messages to the owner = %v, want %v", messages, want)
	}
	if !strings.Contains(trace, "init os @") {
		t.Fatalf("this is no trace of initialisation:\n%s", trace)
	}
	for _, late := range []string{"fmt", "reflect", "testing"} {
		if strings.Contains(trace, "init "+late+" @") {
			t.Errorf("%s was initialised before the supervisor began: check the imports of its package", late)
		}
	}
}
