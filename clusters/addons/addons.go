// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"

	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/images"
)

// Target is the cluster in which an add-on is installed.
type Target struct {
	// Config is an administrator's access.
	Config *rest.Config
	// Kubeconfig is a file with the same access, for commands that a person is told to run.
	Kubeconfig string
	// AirGap says that no registry can be reached: all images were loaded into the nodes, and have no digests.
	AirGap bool
	// Pods says that Pods run here. Where they don't, an add-on is installed and can't become usable.
	Pods bool
	// Shared says that the cluster belongs to others: objects that we did not create are not changed, but reported.
	Shared bool
	// APIHost and APIPort are where nodes reach the API server without Services: Cilium, which makes Services work, needs
	// them. In kind: NAME-control-plane and 6443.
	APIHost string
	APIPort int
}

// State is what is known of an add-on in a cluster.
type State = known.State

// Addon is something that is installed into a cluster.
type Addon interface {
	// Name is what people call it: cilium, cert-manager.
	Name() string
	// Install installs it or upgrades it to the pinned version and waits until it is usable. It can be called again at any
	// time: after a success it changes nothing, and after a failure or a kill it goes on. A time-out's error shows the
	// Pods, Events and logs that explain it. What it is doing goes to say, a line at a time.
	Install(ctx context.Context, target Target, say func(string)) error
	// State looks, without changing anything, for about a second at most.
	State(ctx context.Context, target Target) (State, error)
	// Uninstall removes what Install made. What it did not make stays, and that there was nothing to remove is no error.
	Uninstall(ctx context.Context, target Target) error
}

// Named is the add-on with a name of package known. The error names those that there are.
func Named(store *images.Store, name string) (Addon, error) {
	switch name {
	case known.CertManager:
		return CertManager(store), nil
	case known.Ingress:
		return Ingress(), nil
	case known.Pebble:
		return Pebble(store), nil
	}
	return nil, known.Check([]string{name})
}
