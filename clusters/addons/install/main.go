// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command install installs add-ons into a cluster, reports their state, and uninstalls them. It is a program of its own
// because it links the Helm SDK. The lab command links no Helm, and starts this program where a lab or a person wants
// an add-on (scripts/checkout/addons).
//
// It writes lines of JSON (package known) to standard output, and the reason of a failure to standard error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"lva.io/operators/clusters/addons"
	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/images"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run performs the action that the arguments name, for all add-ons at the same time.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("addons", flag.ContinueOnError)
	root := flags.String("root", "", "the checkout, whose charts are installed")
	kubeconfig := flags.String("kubeconfig", "", "the file of an administrator's kubeconfig")
	shared := flags.Bool("shared", false, "the cluster belongs to others: objects that we did not create are not changed")
	if len(args) == 0 {
		return errors.New("usage: (install | states | uninstall) [FLAGS] ADDON [ADDON …]")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if err := known.Check(flags.Args()); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// The requests need no rate limit, because a user waits for each of them.
	config.QPS, config.Burst = -1, -1
	target := addons.Target{Config: config, Kubeconfig: *kubeconfig, Pods: true, Shared: *shared}
	do, err := action(args[0], target, &lines{encoder: json.NewEncoder(out)})
	if err != nil {
		return err
	}
	store := images.StoreOf(*root)
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range flags.Args() {
		addon, err := addons.Named(store, name)
		if err != nil {
			return err
		}
		group.Go(func() error { return do(ctx, addon) })
	}
	return group.Wait()
}

// action returns the function to call for each add-on.
func action(name string, target addons.Target, out *lines) (func(context.Context, addons.Addon) error, error) {
	switch name {
	case "install":
		return func(ctx context.Context, addon addons.Addon) error {
			if err := addon.Install(ctx, target, func(message string) {
				out.write(known.Line{Addon: addon.Name(), Message: message})
			}); err != nil {
				return fmt.Errorf("installing %s: %w", addon.Name(), err)
			}
			return nil
		}, nil
	case "states":
		return func(ctx context.Context, addon addons.Addon) error {
			state, err := addon.State(ctx, target)
			if err != nil {
				return err
			}
			out.write(known.Line{Addon: addon.Name(), State: &state})
			return nil
		}, nil
	case "uninstall":
		return func(ctx context.Context, addon addons.Addon) error { return addon.Uninstall(ctx, target) }, nil
	}
	return nil, fmt.Errorf("unknown command %q: use install, states or uninstall", name)
}

// lines writes one line at a time, also when several goroutines use it.
type lines struct {
	mutex   sync.Mutex
	encoder *json.Encoder
}

func (l *lines) write(line known.Line) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	_ = l.encoder.Encode(line) // without a reader, there is nowhere to report the error
}
