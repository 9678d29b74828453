// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/keeper"
	"lva.io/operators/clusters/node/namespace"
	"lva.io/operators/clusters/node/plan"
)

// The first process finds these descriptors in addition to the standard streams.
const (
	planFile        = 3 + iota // the plan, as JSON
	statusFile                 // the pipe for the status: the node runs, or the reason why not
	toMachineFile              // the end of the crossing that sends requests to the machine
	fromMachineFile            // the end that answers the machine's requests
	logFile                    // the agent's
	kubeletLog                 // the kubelet's
	firstTree                  // and above: the trees of the mounts
)

// movedVariable is set when the process has moved into the node's own file system.
const movedVariable = "OPERATOR_LABS_MOVED"

func first([]string) error {
	status := os.NewFile(statusFile, "status")
	err := run(status)
	// The process that started this one turns the error into a message, because this process doesn't know what the machine
	// allows.
	text, _ := json.Marshal(statusOf(err)) // can't fail: the fields are strings
	_, _ = status.Write(text)
	return err
}

// statusOf returns the status for an error, or for success if err is nil.
func statusOf(err error) plan.Status {
	var unavailable *namespace.Unavailable
	switch {
	case err == nil:
		return plan.Status{}
	case !errors.As(err, &unavailable):
		return plan.Status{Error: err.Error()}
	case unavailable.Err == nil:
		return plan.Status{Reason: unavailable.Reason, Remedy: unavailable.Remedy}
	}
	return plan.Status{Error: unavailable.Err.Error(), Reason: unavailable.Reason, Remedy: unavailable.Remedy}
}

func run(status *os.File) error {
	if os.Getenv(movedVariable) == "" {
		return move()
	}
	p, err := readPlan()
	if err != nil {
		return err
	}
	for descriptor := planFile; descriptor < firstTree; descriptor++ {
		unix.CloseOnExec(descriptor)
	}
	if err := unix.Sethostname([]byte(p.Name)); err != nil {
		return err
	}
	if err := namespace.Loopback(); err != nil {
		return err
	}
	k := keeper.New()
	if err := os.MkdirAll(filepath.Dir(plan.KeeperSocket), 0o700); err != nil {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: plan.KeeperSocket, Net: "unix"})
	if err != nil {
		return err
	}
	go k.Serve(listener)
	ends := make(chan error, 1)
	go func() {
		// When the process that started this one ends, this one ends, too. The kernel should have killed it already.
		ends <- errors.Join(
			namespace.ServeCrossing(os.NewFile(fromMachineFile, "crossing"), (&net.Dialer{}).DialContext, nil),
			errors.New("the process that started the node has exited"))
	}()
	start(k, p, ends)
	text, _ := json.Marshal(plan.Status{}) // can't fail: the fields are strings
	if _, err := status.Write(text); err != nil {
		return err
	}
	status.Close()
	return <-ends
}

// move creates the node's file system, moves into it, and restarts this program from its file there, which no process
// in the node can write to. The file from which it was started may be writable.
func move() error {
	if err := namespace.Begin(); err != nil {
		return namespace.Explain(err)
	}
	p, err := readPlan()
	if err != nil {
		return err
	}
	if err := p.Root.Enter(); err != nil {
		return namespace.Explain(err)
	}
	return syscall.Exec(plan.InitPath, os.Args, append(os.Environ(), movedVariable+"=1"))
}

// readPlan reads the plan. It reads the file from the beginning each time.
func readPlan() (p plan.Node, err error) {
	var stat unix.Stat_t
	if err := unix.Fstat(planFile, &stat); err != nil {
		return p, fmt.Errorf("reading the node's plan: %w", err)
	}
	text := make([]byte, stat.Size)
	if _, err := unix.Pread(planFile, text, 0); err != nil {
		return p, fmt.Errorf("reading the node's plan: %w", err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("reading the node's plan: %w", err)
	}
	return p, nil
}

// start starts the agent and the kubelet.
func start(k *keeper.Keeper, p plan.Node, ends chan<- error) {
	environment := []string{"PATH=/bin:/usr/bin", "HOME=/root"}
	supervise := func(program keeper.Program) {
		if err := k.Supervise(context.Background(), program); err != nil {
			ends <- err
		}
	}
	if len(p.Agent) > 0 {
		go supervise(keeper.Program{
			Name: "the agent", Path: plan.AgentPath, Args: p.Agent, Env: environment, Log: os.NewFile(logFile, "log"),
			Files: []*os.File{os.NewFile(toMachineFile, "crossing")},
		})
	}
	if len(p.Kubelet) > 0 {
		go func() {
			awaitSocket(plan.CRISocket)
			program := keeper.Program{
				Name: "the kubelet", Path: plan.ControlPlanePath, Args: p.Kubelet, Env: append(environment, p.KubeletEnv...),
				Log: os.NewFile(kubeletLog, "log"),
			}
			if namespace.SingleID() {
				program.Args = append([]string{"operator-labs-owners", program.Path}, program.Args...)
				program.Path = plan.InitPath
			}
			supervise(program)
		}()
	}
}

// awaitSocket waits until the agent listens, because a kubelet that finds no listener exits.
func awaitSocket(path string) {
	const pause = 2 * time.Millisecond
	for tick := time.NewTicker(pause); ; <-tick.C {
		if connection, err := net.Dial("unix", path); err == nil {
			connection.Close()
			return
		} else if !errors.Is(err, os.ErrNotExist) && !strings.Contains(err.Error(), "refused") {
			return // waiting longer would not help
		}
	}
}
