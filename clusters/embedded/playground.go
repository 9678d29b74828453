// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/node"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/readyz"
)

// Playground is a cluster for experiments. It survives between commands until Down. Grading never uses it.
type Playground struct {
	// Dir is the playground's folder. It keeps keys and data across a restart of the machine, so that Up can continue with
	// them.
	Dir string
}

// ErrDown reports that the playground is not running.
var ErrDown = errors.New("the playground is not running: start it with `make up`")

// playgroundState has the data that a later command needs about the processes that an earlier one started.
type playgroundState struct {
	Scope   string         `json:"scope"`
	Version string         `json:"version"`
	Flags   string         `json:"flags"`
	PIDs    map[string]int `json:"pids"`
	// Wanted reports that a node was requested, and NoNode is the reason why there is none.
	Wanted bool   `json:"node,omitempty"`
	NoNode string `json:"noNode,omitempty"`
	// Init is the file of the node's program that removes the files that Pods have left.
	Init    string    `json:"init,omitempty"`
	Started time.Time `json:"started"`
}

// PlaygroundStatus is what `make status` shows.
type PlaygroundStatus struct {
	Host, Version string
	Started       time.Time
	// Programs reports for each program of the control plane whether it runs.
	Programs map[string]bool
	// NoNode is the reason why there is no node, though one was requested. It is empty if there is one, or none was
	// requested.
	NoNode string
	// Ready is nil if the API server reports that it is ready.
	Ready error
}

// NewPlayground returns the playground of the checkout at root. It starts nothing.
func NewPlayground(root string) *Playground {
	return &Playground{Dir: filepath.Join(root, ".cache", "playground")}
}

// Kubeconfig returns the file of an administrator's kubeconfig.
func (p *Playground) Kubeconfig() string { return filepath.Join(p.Dir, adminKubeconfig) }

// Egress returns the Unix socket through which the playground's API server connects to Services. Package egress listens
// there.
func (p *Playground) Egress() string { return filepath.Join(p.Dir, egressSocket) }

// Config returns an administrator's access to the playground. The error is ErrDown if it does not run.
func (p *Playground) Config() (*rest.Config, error) {
	if _, err := os.Stat(p.Kubeconfig()); err != nil {
		return nil, ErrDown
	}
	return loadConfig(p.Kubeconfig())
}

// WithNode reports whether the playground was started with the request for a node. exists is false if there is no
// playground.
func (p *Playground) WithNode() (wanted, exists bool) {
	state, err := p.readState()
	return state.Wanted, err == nil && state.Scope != ""
}

// Up starts the playground without a node, unless it already runs that way, and reports whether it had to. A playground
// that runs with a node is restarted without one, and keeps its data.
func (p *Playground) Up(ctx context.Context, program *multicall.Program) (started bool, err error) {
	return p.up(ctx, program, nil)
}

// UpWithNode is like Up, but with a node where there can be one. Where there can't, Status and the scheduler's message
// on each Pod report the reason. Once there can be one, the next UpWithNode restarts the playground with it.
func (p *Playground) UpWithNode(
	ctx context.Context, program *multicall.Program, parts NodeParts,
) (started bool, err error) {
	return p.up(ctx, program, &parts)
}

func (p *Playground) up(ctx context.Context, program *multicall.Program, parts *NodeParts) (started bool, err error) {
	unlock, err := p.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	state, err := p.readState()
	if err != nil {
		return false, err
	}
	noNode := ""
	if parts != nil && parts.Unavailable != nil {
		noNode = parts.Unavailable.Error()
	}
	// A running node is kept, even if a new one could not be started now.
	same := state.Wanted == (parts != nil) && (state.NoNode == "" || state.NoNode == noNode)
	if same && state.Version == program.Version && state.Flags == flagsDigest() {
		if status, err := p.Status(ctx); err == nil && status.Ready == nil && status.running() {
			return false, nil
		}
	}
	p.end(state)
	scope, err := process.NewScope(process.Options{Dir: p.Dir, Detachable: true})
	if err != nil {
		return false, err
	}
	// The state is written before any process is started, so that a command that finds this folder after a crash can find
	// the processes.
	state = playgroundState{
		Scope: scope.ID, Version: program.Version, Flags: flagsDigest(), Started: time.Now(),
		Wanted: parts != nil, NoNode: noNode, Init: state.Init,
	}
	options := startOptions{durable: true, scheduler: true, node: parts, noNode: noNode}
	switch {
	case parts == nil:
		options.noNode = "the playground was started without one: run `make up` to restart it with a node"
	case noNode != "":
		options.node = nil
	default:
		state.Init = parts.Programs.Init
	}
	if err := p.writeState(state); err != nil {
		return false, errors.Join(err, scope.Close())
	}
	cluster, err := start(ctx, program, scope, options)
	if err != nil {
		return false, err
	}
	if cluster, err = cluster.waitComplete(ctx); err != nil {
		return false, err
	}
	state.PIDs = cluster.PIDs()
	if err := p.writeState(state); err != nil {
		return false, errors.Join(err, cluster.Stop())
	}
	cluster.port.Release()
	scope.Release()
	return true, nil
}

// Down ends the playground and removes all its data. It reports whether there was one.
func (p *Playground) Down() (was bool, err error) {
	if _, err := os.Stat(p.Dir); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	unlock, err := p.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	state, err := p.readState()
	if err != nil {
		return false, err
	}
	p.end(state)
	if state.Init != "" {
		// Without the program, RemoveAll below may be enough.
		_ = node.Remove(context.Background(), node.Programs{Init: state.Init}, p.Dir)
	}
	if err := os.RemoveAll(p.Dir); err != nil {
		return false, fmt.Errorf("removing the playground: %w", err)
	}
	return state.Scope != "", nil
}

// Status returns the state of the playground. The error is ErrDown if there is none.
func (p *Playground) Status(ctx context.Context) (*PlaygroundStatus, error) {
	state, err := p.readState()
	if err != nil {
		return nil, err
	}
	if state.Scope == "" {
		return nil, ErrDown
	}
	status := &PlaygroundStatus{
		Version:  state.Version,
		Started:  state.Started,
		NoNode:   state.NoNode,
		Programs: map[string]bool{},
	}
	for name, pid := range state.PIDs {
		status.Programs[name] = process.Belongs(pid, state.Scope)
	}
	config, err := p.Config()
	if err != nil {
		return nil, err
	}
	status.Host = config.Host
	config.Timeout = 5 * time.Second
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	status.Ready = readyz.Ask(ctx, client.RESTClient())
	return status, nil
}

// HasNode reports whether there is a node and it runs.
func (s *PlaygroundStatus) HasNode() bool { return s.Programs["node"] }

func (s *PlaygroundStatus) running() bool {
	for _, runs := range s.Programs {
		if !runs {
			return false
		}
	}
	return len(s.Programs) > 0
}

// end ends the processes that an earlier Up started, even if that Up was interrupted.
func (p *Playground) end(state playgroundState) {
	for _, pid := range state.PIDs {
		process.KillGroup(pid, state.Scope)
	}
	if state.Scope != "" {
		process.KillMarked(state.Scope)
	}
}

func (p *Playground) stateFile() string { return filepath.Join(p.Dir, "playground.json") }

func (p *Playground) readState() (playgroundState, error) {
	var state playgroundState
	content, err := os.ReadFile(p.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		return state, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &state)
	}
	if err != nil {
		return state, fmt.Errorf(
			"reading the playground's state: %w: remove %s, and kill the playground's processes if it is running",
			err, p.Dir,
		)
	}
	return state, nil
}

func (p *Playground) writeState(state playgroundState) error {
	content, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	temporary := p.stateFile() + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("writing the playground's state: %w", err)
	}
	return os.Rename(temporary, p.stateFile())
}

// lock makes sure that only one command at a time starts or ends the playground, and creates the playground's folder.
// The lock file is beside the folder, because Down removes the folder.
func (p *Playground) lock() (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(p.Dir), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of the playground's lock: %w", err)
	}
	// If a command is killed while it starts a program, the program holds the command's lock for a moment.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	unlock, err = filelock.Wait(ctx, p.Dir+".lock")
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, errors.New("another command is starting or stopping the playground: wait until it has finished")
	}
	if err != nil {
		return nil, fmt.Errorf("locking the playground: %w", err)
	}
	// This comes after the lock, because the Down that held it has removed the folder.
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		unlock()
		return nil, fmt.Errorf("creating the playground's folder: %w", err)
	}
	return unlock, nil
}
