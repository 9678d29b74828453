// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/node"
	"lva.io/operators/clusters/node/manifests"
)

// NodeName is the name of an embedded cluster's only node.
const NodeName = "operator-labs"

// nodeIP is the node's address in its own network. Pods reach the API server at this address, and the API server
// reaches the kubelet.
var nodeIP = net.IPv4(10, 244, 0, 1)

// NodeParts are the programs and images that a cluster's node needs.
type NodeParts struct {
	// Programs are the node's own programs, which must have been built.
	Programs node.Programs
	// Images is the folder of the image store.
	Images string
	// Unavailable, unless it is nil, reports that this machine can have no node. The other fields are not used then.
	Unavailable *node.Unavailable
}

// StartupTask is a function that works on a cluster whose API server answers, while its controllers and its node are
// still starting. It must return when the context ends.
type StartupTask func(ctx context.Context, c *Cluster) error

// StartWithNode is like Start, for callers that create Pods. It also waits until a node is Ready, and until all tasks
// have returned. The first error of any of them stops the cluster. The error is a *node.Unavailable where there can be
// no node.
func StartWithNode(
	ctx context.Context, program *multicall.Program, parts NodeParts, tasks ...StartupTask,
) (*Cluster, error) {
	c, err := StartServerWithNode(ctx, program, parts)
	if err != nil {
		return nil, err
	}
	group, working := errgroup.WithContext(ctx)
	for _, task := range tasks {
		group.Go(func() error { return task(working, c) })
	}
	group.Go(func() error {
		_, err := c.waitComplete(working)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// StartServerWithNode is like StartServer, for callers that create Pods, but need not see them run at first.
// Controllers, node and scheduler start in the background. If they fail, Failed returns the reason. The error is a
// *node.Unavailable where there can be no node.
func StartServerWithNode(ctx context.Context, program *multicall.Program, parts NodeParts) (*Cluster, error) {
	if parts.Unavailable != nil {
		return nil, parts.Unavailable
	}
	return startPrepared(ctx, program, startOptions{scheduler: true, node: &parts})
}

// HasNode reports whether the cluster was started with a node, which may not be Ready yet.
func (c *Cluster) HasNode() bool { return c.hasNode }

// Runtime returns the socket of the node's container runtime (the CRI), where there is a node. Only the cluster's user
// can connect.
func (c *Cluster) Runtime() string { return filepath.Join(c.Dir, "cri.sock") }

// MachineIP is the address at which Pods of the node reach programs of this machine. The process that listens at
// Cluster.Egress (package egress) forwards their connections.
const MachineIP = "192.0.2.1"

// agents is the group of the nodes' agents. They implement Services, as kube-proxy does. They also check whether a Pod
// is being deleted.
const agents = "operator-labs:agents"

// ensureAgents grants the agents the permissions that they need.
func (c *Cluster) ensureAgents(ctx context.Context, client kubernetes.Interface) error {
	name := metav1.ObjectMeta{Name: agents}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{
			APIGroups: []string{""},
			Resources: []string{"services", "pods"},
			Verbs:     []string{"get", "list", "watch"},
		},
		{
			APIGroups: []string{"discovery.k8s.io"},
			Resources: []string{"endpointslices"},
			Verbs:     []string{"get", "list", "watch"},
		},
		// The agent records Events: on a Service or a Pod if another program has a port of the machine that it needs, and on
		// a Pod about the progress of building its image.
		{
			APIGroups: []string{""},
			Resources: []string{"events"},
			Verbs:     []string{"create", "patch"},
		},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: agents},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: agents}},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("granting the node's agent its permissions: %w", err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("granting the node's agent its permissions: %w", err)
	}
	return nil
}

// The files of the run folder with which the node and the API server authenticate each other.
const (
	kubeletKubeconfig = "kubelet.kubeconfig"
	agentKubeconfig   = node.AgentKubeconfig
	kubeletServing    = "kubelet"        // .crt and .key
	kubeletClient     = "kubelet-client" // the API server's client certificate for the kubelet
	// nodeEgress is the socket at which the node forwards the API server's connections. The program that serves Services
	// locally keeps egressSocket.
	nodeEgress = "node.sock"
)

// nodeFiles returns the keys of a node. The kubelet has a key of its own, whose permissions are limited to its node (by
// the Node authorizer and NodeRestriction).
func nodeFiles(ca *certificates.Authority, host string) (map[string][]byte, error) {
	files := map[string][]byte{}
	serving, err := ca.Server("system:node:"+NodeName, []string{NodeName}, nodeIP)
	if err != nil {
		return nil, err
	}
	files[kubeletServing+".crt"], files[kubeletServing+".key"] = serving.Certificate, serving.Key
	pair, err := ca.Client("operator-labs-"+kubeletClient, "system:masters")
	if err != nil {
		return nil, err
	}
	files[kubeletClient+".crt"], files[kubeletClient+".key"] = pair.Certificate, pair.Key
	for _, client := range []client{
		{kubeletKubeconfig, "system:node:" + NodeName, "system:nodes"},
		{agentKubeconfig, "operator-labs-agent", agents},
	} {
		if files[client.file], err = client.kubeconfig(ca, host); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func groupsOf(group string) []string {
	if group == "" {
		return nil
	}
	return []string{group}
}

// nodeFlags returns the API server's flags that are added when there is a node, or that differ from those without one.
func nodeFlags() []string {
	return []string{
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		// The endpoints of the Service kubernetes, through which Pods reach the API server, have the node's address.
		"--advertise-address=" + nodeIP.String(), "--endpoint-reconciler-type=lease",
		"--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority=ca.crt",
		"--kubelet-client-certificate=" + kubeletClient + ".crt", "--kubelet-client-key=" + kubeletClient + ".key",
	}
}

// limitsCondition is the type of the node's condition that reports whether the limits of containers hold.
const limitsCondition = "ResourceLimitsHold"

// limitsConditionOf returns the condition for these limits. Its status is True only if all of them hold.
func limitsConditionOf(limits node.Limits) corev1.NodeCondition {
	c := corev1.NodeCondition{
		Type:               limitsCondition,
		Status:             corev1.ConditionFalse,
		LastHeartbeatTime:  metav1.Now(),
		LastTransitionTime: metav1.Now(),
	}
	switch limits {
	case node.Limits{Memory: true, CPU: true}:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "ControlGroups",
			"memory and CPU limits of containers are enforced"
	case node.Limits{Memory: true}:
		c.Reason, c.Message = "NoCPUController",
			"memory limits of containers are enforced; CPU limits are accepted but not enforced on this node"
	case node.Limits{CPU: true}:
		c.Reason, c.Message = "NoMemoryController",
			"CPU limits of containers are enforced; memory limits are accepted but not enforced on this node"
	default:
		c.Reason, c.Message = "NoControlGroups",
			"memory and CPU limits of containers are accepted but not enforced on this node"
	}
	return c
}

// reportLimits writes to the node's status which limits hold, because not every machine lets us create the control
// groups that limits need. The kubelet does not change conditions that it does not know.
func reportLimits(ctx context.Context, client kubernetes.Interface, limits node.Limits) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": []corev1.NodeCondition{limitsConditionOf(limits)},
	}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().PatchStatus(ctx, NodeName, patch); err != nil {
		return fmt.Errorf("reporting the node's resource limits: %w", err)
	}
	return nil
}

// withFlags adds flags. Each replaces the flag of the same name.
func withFlags(flags []string, more ...string) []string {
	name := func(flag string) string {
		before, _, _ := strings.Cut(flag, "=")
		return before
	}
	flags = slices.DeleteFunc(flags, func(old string) bool {
		return slices.ContainsFunc(more, func(flag string) bool { return name(flag) == name(old) })
	})
	return append(flags, more...)
}

// startNode starts the node, creates the objects that every node needs, and waits until it is Ready.
func (c *Cluster) startNode(ctx context.Context, program *multicall.Program, options startOptions) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if err := c.ensureAgents(ctx, client); err != nil {
		return err
	}
	// Applying the manifests of the node's own Pods does not have to wait for the node.
	var applied errgroup.Group
	applied.Go(func() error { return manifests.Apply(ctx, c.Config()) })
	if err := c.startReady(ctx, client, program, options); err != nil {
		return errors.Join(err, applied.Wait())
	}
	return applied.Wait()
}

// forgetNode deletes the Node of an earlier start. Otherwise the scheduler would assign Pods to it.
func (c *Cluster) forgetNode(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if err := client.CoreV1().Nodes().Delete(ctx, NodeName, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the earlier node: %w", err)
	}
	return nil
}

// startReady starts the node and waits until it is Ready.
func (c *Cluster) startReady(
	ctx context.Context, client kubernetes.Interface, program *multicall.Program, options startOptions,
) (err error) {
	files := map[string][]byte{}
	for _, name := range []string{
		kubeletKubeconfig, agentKubeconfig, kubeletServing + ".crt", kubeletServing + ".key", "ca.crt",
	} {
		if files[name], err = os.ReadFile(filepath.Join(c.Dir, name)); err != nil {
			return fmt.Errorf("reading the node's keys: %w", err)
		}
	}
	started, err := node.Start(ctx, node.Options{
		Name:         NodeName,
		Scope:        c.scope,
		Dir:          c.Dir,
		Keep:         options.durable,
		Programs:     options.node.Programs,
		ControlPlane: program.Path,
		Env:          environment(),
		Images:       options.node.Images,
		API:          net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port.Port)),
		Egress:       filepath.Join(c.Dir, nodeEgress),
		Local:        c.Egress,
		Runtime:      c.Runtime(),
		Files:        files,
	})
	if err != nil {
		return err
	}
	c.mutex.Lock()
	c.processes = append(c.processes, started.Process())
	c.mutex.Unlock()
	if err := started.Ready(ctx, client); err != nil {
		return err
	}
	return reportLimits(ctx, client, started.Limits())
}
