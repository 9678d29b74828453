// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
)

// New returns a stage at a cluster whose API server reaches this machine by the given Route.
func New(cluster *stage.Cluster, route Route) stage.Stage {
	return &local{cluster: cluster, route: route}
}

type local struct {
	cluster *stage.Cluster
	route   Route
}

func (l *local) Cluster() *stage.Cluster     { return l.cluster }
func (l *local) Address() string             { return "127.0.0.1" }
func (l *local) AdvertiseAddress() string    { return l.Address() }
func (l *local) Installing() string          { return "install the API" }
func (l *local) StartTimeout() time.Duration { return 0 }
func (l *local) Close() error                { return l.cluster.Stop() }

// Install installs the API, and writes the kubeconfig of the operator's account.
func (l *local) Install(ctx context.Context, what stage.Submission, gateway stage.Gateway) (stage.Installed, error) {
	what.Manifests.Notices = append(what.Manifests.Notices, what.Gaps(what.Manifests, !what.APIOnly, what.Conversion)...)
	target, err := l.cluster.InstallTarget(ctx, &what)
	if err != nil {
		return nil, err
	}
	token, err := install.API(ctx, target, what.Manifests)
	if err != nil {
		return nil, err
	}
	if gateway.Host == "" {
		gateway.Host, gateway.CA = target.Config.Host, target.Config.CAData
	}
	ports, err := gateway.Ports()
	if err != nil {
		return nil, err
	}
	content, err := embedded.Kubeconfig(gateway.Host, gateway.CA, clientcmdapi.AuthInfo{Token: gateway.Shown(token)})
	if err != nil {
		return nil, err
	}
	i := &installed{
		Submission: what, target: target, route: l.route, kubeconfig: filepath.Join(what.Scope.Dir, "operator.kubeconfig"),
		environment: gateway.Environment, ports: ports,
	}
	if err := os.WriteFile(i.kubeconfig, content, 0o600); err != nil {
		return nil, fmt.Errorf("writing the operator's kubeconfig: %w", err)
	}
	return i, nil
}

// installed is a submission that was installed.
type installed struct {
	stage.Submission
	target      install.Target
	route       Route
	kubeconfig  string   // the file with the access of the operator's account
	environment []string // additional variables of the operator
	ports       []int    // the ports to which it connects
}
