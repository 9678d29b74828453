// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
)

// Installer installs add-ons into clusters.
type Installer struct {
	// Program is the file of the program that installs them. It must exist.
	Program string
	// Root is the root of the checkout, which has the charts.
	Root string
	// Shared reports that the cluster belongs to others: objects that we did not create are not changed.
	Shared bool
}

// Install installs add-ons, all at the same time, and returns when each of them is usable. kubeconfig is the file of an
// administrator's kubeconfig. Install passes its progress to report, one line at a time. It can be called again at any
// time, also after it was killed. It then continues.
func (i Installer) Install(ctx context.Context, kubeconfig string, names []string, report func(string)) error {
	return i.run(ctx, "install", kubeconfig, names, func(line known.Line) {
		if line.Message != "" {
			report(line.Addon + ": " + line.Message)
		}
	})
}

// States reports what is known about add-ons in a cluster, without changing anything.
func (i Installer) States(ctx context.Context, kubeconfig string, names []string) ([]known.State, error) {
	found := map[string]known.State{}
	if err := i.run(ctx, "states", kubeconfig, names, func(line known.Line) {
		if line.State != nil {
			found[line.Addon] = *line.State
		}
	}); err != nil {
		return nil, err
	}
	states := make([]known.State, 0, len(names))
	for _, name := range names {
		states = append(states, found[name])
	}
	return states, nil
}

// Missing returns those of the add-ons that are not installed in a cluster.
func (i Installer) Missing(ctx context.Context, kubeconfig string, names []string) (missing []string, err error) {
	states, err := i.States(ctx, kubeconfig, names)
	for _, state := range states {
		if state.Installed == "" {
			missing = append(missing, state.Name)
		}
	}
	return missing, err
}

// Uninstall removes what Install has created. It returns no error if there is nothing to remove.
func (i Installer) Uninstall(ctx context.Context, kubeconfig string, names []string) error {
	return i.run(ctx, "uninstall", kubeconfig, names, func(known.Line) {})
}

// run runs the program to its end. The program ends with ctx, and with this process, however that ends.
func (i Installer) run(
	ctx context.Context, do, kubeconfig string, names []string, handle func(known.Line),
) (err error) {
	if len(names) == 0 {
		return nil
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	args := []string{do, "--root", i.Root, "--kubeconfig", kubeconfig}
	if i.Shared {
		args = append(args, "--shared")
	}
	var failed strings.Builder
	output := &lines{handle: handle}
	program, err := scope.Start(process.Spec{
		Name: "addons", Path: i.Program, Args: append(args, names...),
		Env: gobuild.Environment(), Stdout: output, Stderr: &failed,
	})
	if err != nil {
		return fmt.Errorf("starting the program that installs add-ons: %w", err)
	}
	select {
	case <-program.Done():
	case <-ctx.Done():
		program.Kill()
		return context.Cause(ctx)
	}
	if err := program.Err(); err != nil {
		if text := strings.TrimSpace(failed.String()); text != "" {
			return errors.New(text)
		}
		return fmt.Errorf("the program that installs add-ons: %w", err)
	}
	return nil
}

// lines passes on each line of JSON as soon as it is complete.
type lines struct {
	handle func(known.Line)
	mutex  sync.Mutex
	rest   []byte
}

var _ io.Writer = (*lines)(nil)

func (l *lines) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.rest = append(l.rest, p...)
	for {
		text, after, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		l.rest = after
		var line known.Line
		if err := json.Unmarshal(text, &line); err != nil {
			return 0, fmt.Errorf("reading the output of the program that installs add-ons: %w", err)
		}
		l.handle(line)
	}
}
