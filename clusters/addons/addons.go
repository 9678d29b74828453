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
	// Config gives an administrator's access.
	Config *rest.Config
	// Kubeconfig is a file with the same access, for the commands that messages suggest to a person.
	Kubeconfig string
	// AirGap reports that no registry can be reached: all images were loaded into the nodes, and have no digests.
	AirGap bool
	// Pods reports whether Pods can run here. Where they can't, an add-on is installed, but can't become usable.
	Pods bool
	// Shared reports that others use the cluster, too. Objects that we did not create are reported, but not changed.
	Shared bool
	// APIHost and APIPort are the address at which nodes reach the API server without Services. Cilium needs it, because
	// Cilium itself implements Services. In kind: NAME-control-plane and 6443.
	APIHost string
	APIPort int
}

// State describes an add-on in a cluster.
type State = known.State

// Addon is a component that can be installed into a cluster.
type Addon interface {
	// Name is the add-on's usual name: cilium, cert-manager.
	Name() string
	// Install installs the add-on or upgrades it to the pinned version, and waits until it is usable. It can be called
	// again at any time: after a success it changes nothing, and after a failure or a kill it continues. The error of a
	// time-out includes the Pods, Events and logs that explain it. Install passes its progress to report, a line at a
	// time.
	Install(ctx context.Context, target Target, report func(string)) error
	// State looks at the add-on without changing anything. It takes about a second at most.
	State(ctx context.Context, target Target) (State, error)
	// Uninstall removes what Install created, and leaves everything else. It is no error if there is nothing to remove.
	Uninstall(ctx context.Context, target Target) error
}

// Named returns the add-on with a name of package known. The error for another name lists the add-ons.
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
