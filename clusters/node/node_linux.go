// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"lva.io/operators/clusters/node/kubelet"
	"lva.io/operators/clusters/node/plan"
	"lva.io/operators/clusters/process"
)

// Start starts a node. It returns when the node's first process runs. The kubelet then registers the node at the API
// server, and Ready waits for that. The node ends with the scope, or with Close. The error is an *Unavailable if this
// machine can have no node.
func Start(ctx context.Context, o Options) (*Node, error) {
	n := &Node{options: o, dir: filepath.Join(o.Dir, "node")}
	if err := n.write(); err != nil {
		return nil, fmt.Errorf("starting a node: %w", err)
	}
	if err := n.start(ctx); err != nil {
		return nil, fmt.Errorf("starting a node: %w", err)
	}
	return n, nil
}

// write writes the files that the node's programs read.
func (n *Node) write() error {
	etc := filepath.Join(n.dir, "etc")
	if err := os.MkdirAll(etc, 0o755); err != nil {
		return err
	}
	files := map[string][]byte{kubelet.ConfigurationFile: kubelet.Configuration()}
	maps.Copy(files, n.options.Files)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(etc, name), content, 0o600); err != nil {
			return err
		}
	}
	o := n.options
	host := plan.Host{
		Name: o.Name, Dir: n.dir, Keep: o.Keep, Init: o.Programs.Init, Agent: o.Programs.Agent,
		ControlPlane: o.ControlPlane, Images: o.Images, Builder: o.Programs.Builder,
		API: o.API, Egress: o.Egress, Local: o.Local, Runtime: o.Runtime, SingleID: o.SingleID,
		AgentArgs:   []string{"agent", "-node=" + o.Name, "-kubeconfig=" + plan.Etc + "/" + AgentKubeconfig},
		KubeletArgs: kubelet.Args(o.Name),
	}
	text, err := json.Marshal(host)
	if err != nil {
		return err
	}
	return os.WriteFile(n.plan(), text, 0o600)
}

func (n *Node) plan() string { return filepath.Join(n.dir, "plan.json") }

// start starts the node's process on the machine, and waits until it reports the status of the node.
func (n *Node) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(n.dir, "host.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	n.process, err = n.options.Scope.Start(process.Spec{
		Name: "node", Path: n.options.Programs.Init, Args: []string{"host", n.plan()}, Env: n.options.Env,
		Stdout: log, Stderr: log, Files: []*os.File{write},
	})
	write.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { n.process.Kill() })
	defer stop()
	status, err := io.ReadAll(read)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	var s plan.Status
	if err := json.Unmarshal(status, &s); err != nil {
		return fmt.Errorf("its process exited before it reported a status%s", n.LogTail())
	}
	if err := errorOf(s); err != nil {
		n.process.Kill()
		return err
	}
	n.limits = Limits(s.Limits)
	return nil
}

func errorOf(s plan.Status) error {
	switch {
	case s.Reason != "" && s.Error != "":
		return &Unavailable{Reason: s.Reason, Remedy: s.Remedy, Err: errors.New(s.Error)}
	case s.Reason != "":
		return &Unavailable{Reason: s.Reason, Remedy: s.Remedy}
	case s.Error != "":
		return errors.New(s.Error)
	}
	return nil
}

// Remove removes the folder of a node that has ended, below the folder dir, with all data that Pods have left there.
func Remove(ctx context.Context, programs Programs, dir string) error {
	folder := filepath.Join(dir, "node")
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if output, err := exec.CommandContext(ctx, programs.Init, "remove", folder).CombinedOutput(); err != nil {
		return fmt.Errorf("removing %s: %w: %s", folder, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// A probe that was killed or did not end is repeated. On a quiet machine, a probe takes milliseconds.
const (
	probeAttempts = 3
	probeTimeout  = 30 * time.Second
)

var errProbeSlow = fmt.Errorf("it did not finish within %s", probeTimeout)

// Probe tests whether this machine can have a node. It takes a few milliseconds. The error is an *Unavailable if it
// can't, or the cause of the context's end if that came first. If a busy machine kills or delays the probe, the result
// is meaningless, and Probe repeats it.
func Probe(ctx context.Context, programs Programs) (err error) {
	for range probeAttempts {
		var status plan.Status
		var retry bool
		if status, retry, err = probe(ctx, programs); err == nil {
			return errorOf(status)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !retry {
			break
		}
	}
	return fmt.Errorf("testing whether this machine can have a node: %w", err)
}

// probe runs one probe. The probe's folders are in a run folder, which is removed even if the probe or this process is
// killed. retry is true if the probe was killed or too slow.
func probe(ctx context.Context, programs Programs) (s plan.Status, retry bool, err error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return s, false, err
	}
	defer func() { _ = scope.Close() }() // the answer is known, and another run removes the rest
	var stdout, stderr bytes.Buffer
	started, err := scope.Start(process.Spec{
		Name: "the probe", Path: programs.Init, Args: []string{"probe"},
		Stdout: &stdout, Stderr: &stderr, Env: append(os.Environ(), "TMPDIR="+scope.Dir),
	})
	if err != nil {
		return s, false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errProbeSlow)
	defer cancel()
	err = started.Wait(ctx)
	parseErr := json.Unmarshal(stdout.Bytes(), &s)
	if parseErr == nil {
		return s, false, nil
	}
	ended, failed := errors.AsType[process.ExitError](err)
	retry = errors.Is(err, errProbeSlow) || failed && ended.ExitCode() < 0
	switch text := strings.TrimSpace(stderr.String()); {
	case err == nil:
		err = fmt.Errorf("unexpected output %q: %w", stdout.String(), parseErr)
	case text != "":
		err = fmt.Errorf("%w: %s", err, text)
	}
	return s, retry, err
}

// LogTail returns the last lines of the logs of the node's programs, for an error message.
func (n *Node) LogTail() string {
	var text strings.Builder
	for _, name := range []string{"host.log", "log/agent.log", "log/kubelet.log"} {
		content, err := os.ReadFile(filepath.Join(n.dir, name))
		if err != nil || len(content) == 0 {
			continue
		}
		const most = 5
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&text, "\nthe last lines of %s:\n  %s", name, strings.Join(lines[max(0, len(lines)-most):], "\n  "))
	}
	return text.String()
}
