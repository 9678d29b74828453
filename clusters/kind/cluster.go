// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/constants"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/config"
	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/readyz"
)

// NodeImage is the image of nodes where a registry answers: the image of Kubernetes 1.36 that was built for our version
// of kind (see its release notes).
const NodeImage = "docker.io/kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed"

const (
	// markerName is the ConfigMap in kube-system that is written as the last step of the creation of a cluster.
	markerName = "operator-labs-cluster"
	// unfinishedFile is in the cluster's folder from before the first step until after the last one.
	unfinishedFile = "unfinished"
	// networkFile records, for all clusters of the checkout, that Docker's network did not exist before one of ours.
	networkFile = "network-made"

	// pollInterval is the time between two checks of a condition that has no event to wait for.
	pollInterval = 200 * time.Millisecond
	// removalTime is how long Docker may take to remove containers.
	removalTime = time.Minute
	// answerTime is how long an API server that is up may take for an answer.
	answerTime = 3 * time.Second
)

// Cluster is a kind cluster, identified by its name. It need not exist. Its methods are not safe for concurrent use.
type Cluster struct {
	Name string
	// Folder holds the cluster's own files: the kubeconfig, and the audit policy that is mounted into its nodes.
	Folder string

	provider *cluster.Provider
	log      *logger
	// access caches the kubeconfig that was read from the node, because reading it takes several docker commands.
	access string
}

// nameForm matches the names that kind and Docker accept for a container, and Kubernetes for a Node.
var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// New returns the cluster of a checkout with a name. It creates nothing.
func New(root, name string) (*Cluster, error) {
	if !nameForm.MatchString(name) {
		return nil, fmt.Errorf("%q can't be a cluster's name: use at most 40 lowercase letters, digits and hyphens", name)
	}
	log := &logger{}
	return &Cluster{
		Name: name, Folder: docker.Folder(root, name), log: log,
		provider: cluster.NewProvider(cluster.ProviderWithLogger(log), cluster.ProviderWithDocker()),
	}, nil
}

// Lock waits until no other command works on the cluster. The kernel releases the lock when its holder ends.
func (c *Cluster) Lock(ctx context.Context, waits func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(c.Folder), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of clusters: %w", err)
	}
	late := time.AfterFunc(time.Second, waits)
	defer late.Stop()
	unlock, err = filelock.Wait(ctx, c.Folder+".lock")
	if err != nil {
		return nil, fmt.Errorf("waiting for another command that uses the cluster %s: %w", c.Name, err)
	}
	return unlock, nil
}

// Kubeconfig returns the kubeconfig file with which this machine reaches the cluster.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Folder, "kubeconfig") }

// Config returns an administrator's access to the cluster's API server from this machine. It reads the kubeconfig of
// the control plane node, so that it works even if the local kubeconfig was removed.
func (c *Cluster) Config() (*rest.Config, error) {
	content, err := c.kubeconfig()
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(content))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the cluster %s: %w", c.Name, err)
	}
	// Ours is the only client, and it is on the same machine.
	config.QPS, config.Burst = 200, 400
	return config, nil
}

// kubeconfig returns the kubeconfig for this machine, wherever else the API server listens.
func (c *Cluster) kubeconfig() (string, error) {
	if c.access != "" {
		return c.access, nil
	}
	content, err := c.provider.KubeConfig(c.Name, false)
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig of the cluster %s from its node: %w", c.Name, err)
	}
	c.access = strings.ReplaceAll(content, "https://0.0.0.0:", "https://127.0.0.1:")
	return c.access, nil
}

// WriteKubeconfig writes the kubeconfig's file, and reports whether its content has changed.
func (c *Cluster) WriteKubeconfig() (changed bool, err error) {
	content, err := c.kubeconfig()
	if err != nil {
		return false, err
	}
	if info, err := os.Stat(c.Kubeconfig()); err == nil && info.Mode().Perm() == 0o600 {
		if old, err := os.ReadFile(c.Kubeconfig()); err == nil && string(old) == content {
			return false, nil
		}
	}
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return false, fmt.Errorf("creating the cluster's folder: %w", err)
	}
	temporary := c.Kubeconfig() + ".new"
	if err := os.WriteFile(temporary, []byte(content), 0o600); err != nil {
		return false, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return true, os.Rename(temporary, c.Kubeconfig())
}

func (c *Cluster) client() (kubernetes.Interface, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	config.Timeout = answerTime
	return kubernetes.NewForConfig(config)
}

// Make creates the cluster, which must be absent. report is called with each step. An error includes what the nodes
// report, and the nodes are kept for inspection. The next Find reports the cluster as unfinished.
func (c *Cluster) Make(ctx context.Context, profile *Profile, marker Marker, report func(string)) error {
	c.access = ""
	if err := c.prepare(ctx); err != nil {
		return err
	}
	wanted, err := profile.forCluster(c.Name, c.Folder)
	if err != nil {
		return err
	}
	create := func() error {
		return c.guarded(ctx, report, func() error {
			return c.provider.Create(c.Name,
				cluster.CreateWithV1Alpha4Config(wanted),
				cluster.CreateWithNodeImage(marker.NodeImage),
				cluster.CreateWithRetain(true),
				cluster.CreateWithKubeconfigPath(c.Kubeconfig()), cluster.CreateWithWaitForReady(0),
				cluster.CreateWithDisplayUsage(false), cluster.CreateWithDisplaySalutation(false))
		})
	}
	err = create()
	if err != nil && ctx.Err() == nil && strings.Contains(commandOutput(err), "is already in use by container") {
		// Docker was still working for a killed command of ours.
		if err = c.removeNodes(ctx); err == nil {
			err = create()
		}
	}
	if err != nil {
		return c.explained(ctx, err)
	}
	if _, err := c.WriteKubeconfig(); err != nil {
		return err
	}
	marker.Profile, marker.Hash, marker.Created = profile.Name, profile.Hash, time.Now()
	if err := c.Mark(ctx, marker); err != nil {
		return err
	}
	return c.finished()
}

// prepare creates the cluster's folder. From here on the cluster is unfinished.
func (c *Cluster) prepare(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(c.Folder), 0o755); err != nil {
		return fmt.Errorf("creating the folder of clusters: %w", err)
	}
	// kind does not break the lock of a killed command. We hold our own lock, so no other command is running.
	_ = os.Remove(c.Kubeconfig() + ".lock")
	if _, err := docker.Output(ctx, "network", "inspect", docker.Network); err != nil {
		if err := os.WriteFile(filepath.Join(filepath.Dir(c.Folder), networkFile), nil, 0o644); err != nil {
			return fmt.Errorf("recording that Docker's network is ours: %w", err)
		}
	}
	if err := c.unfinished(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.Folder, "audit-policy.yaml"), config.AuditPolicy, 0o644); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}

// guarded calls kind, which takes no context and starts docker commands by itself. These commands end when we end, and
// when ctx ends. report gets kind's messages. It may be nil.
func (c *Cluster) guarded(ctx context.Context, report func(string), work func() error) error {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer scope.Close()
	abandon, err := scope.Adopt()
	if err != nil {
		return err
	}
	defer abandon()
	c.log.listen(report)
	defer c.log.listen(nil)
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// work fails when the command that it waits for is killed, but it may then start another one.
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for range 50 {
		process.KillMarked(scope.ID)
		select {
		case <-done: //nolint:errcheck // it ended because we ended it
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return context.Cause(ctx)
}

// Start starts a cluster's containers, for example after a restart of the machine, and waits until its API server
// answers.
func (c *Cluster) Start(ctx context.Context, nodes []docker.Node) error {
	c.access = ""
	for _, node := range nodes {
		if node.Running {
			continue
		}
		if _, err := docker.Output(ctx, "start", node.Name); err != nil {
			return fmt.Errorf("starting the node %s: %w; --recreate creates a new cluster", node.Name, err)
		}
	}
	return c.WaitReady(ctx)
}

// WaitReady waits until the API server reports that it is ready.
func (c *Cluster) WaitReady(ctx context.Context) error {
	err := await.Until(ctx, pollInterval, "the API server of the cluster "+c.Name,
		func(ctx context.Context) (string, error) {
			client, err := c.client()
			if err == nil {
				err = readyz.Ask(ctx, client.Discovery().RESTClient())
			}
			if err != nil {
				return "it last answered: " + err.Error(), nil //nolint:nilerr // it may yet answer
			}
			return "", nil
		})
	if err != nil {
		return c.explained(ctx, err)
	}
	return nil
}

// Delete removes the cluster's containers and folder. It also removes Docker's network if it is ours and no longer in
// use. It reports whether there was anything to remove.
func (c *Cluster) Delete(ctx context.Context) (was bool, err error) {
	nodes, err := docker.Containers(ctx, c.Name)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(c.Folder)
	was = len(nodes) > 0 || err == nil
	if len(nodes) > 0 {
		// If this command is killed here, some of the nodes remain, or Docker is still working.
		if err := c.unfinished(); err != nil {
			return was, err
		}
	}
	if err := c.removeNodes(ctx); err != nil {
		return was, err
	}
	if err := os.RemoveAll(c.Folder); err != nil {
		return was, fmt.Errorf("removing the cluster's folder: %w", err)
	}
	return was, c.removeNetwork(ctx)
}

// removeNodes removes the containers, including those that Docker is already removing for a killed command.
func (c *Cluster) removeNodes(ctx context.Context) error {
	c.access = ""
	_ = os.Remove(c.Kubeconfig() + ".lock")
	ctx, cancel := context.WithTimeoutCause(ctx, removalTime,
		fmt.Errorf("Docker did not remove them within %s", removalTime)) //nolint:staticcheck // Docker is a name
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		failed := c.guarded(ctx, nil, func() error { return c.provider.Delete(c.Name, c.Kubeconfig()) })
		nodes, err := docker.Containers(ctx, c.Name)
		if err == nil && len(nodes) == 0 {
			return true, nil
		}
		if failed != nil && !strings.Contains(commandOutput(failed), "already in progress") {
			return false, fmt.Errorf("%w: %s", failed, commandOutput(failed))
		}
		return false, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("deleting the cluster %s: %w", c.Name, err)
}

// Remove removes the containers of a cluster whose creation was interrupted.
func (c *Cluster) Remove(ctx context.Context) error { return c.removeNodes(ctx) }

func (c *Cluster) removeNetwork(ctx context.Context) error {
	note := filepath.Join(filepath.Dir(c.Folder), networkFile)
	if _, err := os.Stat(note); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("checking whether Docker's network is ours: %w", err)
	}
	others, err := c.provider.List()
	if err != nil {
		return fmt.Errorf("looking for other clusters: %w", err)
	}
	if len(others) > 0 {
		return nil
	}
	// The network stays if other containers use it.
	var failed *docker.Error
	if _, err := docker.Output(ctx, "network", "rm", docker.Network); err != nil && !errors.As(err, &failed) {
		return err
	}
	return os.Remove(note)
}

// ExportLogs writes the nodes' logs into a folder: kind's own collection, with the logs of all Pods and the part of the
// API server's audit log that was not rotated.
func (c *Cluster) ExportLogs(ctx context.Context, dir string, report func(string)) error {
	return c.guarded(ctx, report, func() error {
		if err := c.provider.CollectLogs(c.Name, dir); err != nil {
			return fmt.Errorf("collecting the logs of the cluster %s: %w: %s", c.Name, err, commandOutput(err))
		}
		nodes, err := docker.Nodes(ctx, c.Name)
		if err != nil {
			return err
		}
		file, err := os.OpenFile(filepath.Join(dir, "audit.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("writing the audit log: %w", err)
		}
		defer file.Close()
		return docker.Exec(ctx, nodes[0], nil, file, "cat", docker.AuditLog)
	})
}

// APIHost returns the host at which programs in the cluster reach the API server without kube-proxy, at APIPort: the
// name of the control plane's container. With several control planes, kind has a load balancer in front of them.
func (c *Cluster) APIHost(controlPlanes int) string {
	if controlPlanes > 1 {
		return c.Name + "-" + constants.ExternalLoadBalancerNodeRoleValue
	}
	return c.Name + "-" + constants.ControlPlaneNodeRoleValue
}

// APIPort is the API server's port in its container.
const APIPort = 6443
