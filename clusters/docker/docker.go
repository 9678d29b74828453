// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultCluster is the name of a kind cluster if no other name is given.
	DefaultCluster = "operator-labs"
	// FrontProxyCert is the certificate that the API server presents to aggregated API servers. kubeadm writes it to
	// control plane nodes.
	FrontProxyCert = "/etc/kubernetes/pki/front-proxy-client.crt"
	// FrontProxyKey is the key of FrontProxyCert.
	FrontProxyKey = "/etc/kubernetes/pki/front-proxy-client.key"
	// AuditLog is the API server's audit log on a control plane node of ours.
	AuditLog = "/var/log/kubernetes/audit.log"
	// Network is the Docker network to which kind connects all nodes.
	Network = "kind"

	// clusterLabel and roleLabel are the labels that kind sets on each node's container.
	clusterLabel = "io.x-k8s.kind.cluster"
	roleLabel    = "io.x-k8s.kind.role"

	// patience is how long a docker command that was asked to end may take before we stop reading from it.
	patience = 2 * time.Second
)

// ErrMissing reports that there is no docker command on PATH.
var ErrMissing = errors.New("docker is needed and not on PATH: " +
	"on Debian `apt-get install docker.io` installs it, elsewhere see https://docs.docker.com/engine/install")

// ErrNoEngine and ErrForbidden are the reasons why the docker command reached no engine.
var (
	ErrNoEngine = errors.New("Docker's engine does not answer: start it, " + //nolint:staticcheck // Docker is a name
		"`sudo systemctl start docker` or Docker Desktop; as root on Debian `make cluster` starts one by itself")
	ErrForbidden = errors.New("you may not use Docker's engine: `sudo usermod -aG docker $USER` allows it " +
		"after you have logged in again; anyone in that group can become root on this machine")
)

// ErrNoCluster reports that no container belongs to a cluster of that name.
var ErrNoCluster = errors.New("there is no such kind cluster: `make cluster` creates one")

// Folder is the folder of a cluster's own files in a checkout.
func Folder(root, cluster string) string { return filepath.Join(root, ".cache", "kind", cluster) }

// Kubeconfig is the kubeconfig with which this machine reaches a cluster of the checkout. Only its owner can read it.
func Kubeconfig(root, cluster string) string {
	return filepath.Join(Folder(root, cluster), "kubeconfig")
}

// Error is the error of a docker command that ran and failed.
type Error struct {
	// Args are docker's arguments.
	Args []string
	// Stderr is what docker wrote to standard error.
	Stderr string
	Err    error
	// Reason is ErrNoEngine or ErrForbidden if one of these caused the failure, or nil.
	Reason error
}

func (e *Error) Error() string {
	if e.Reason != nil {
		return e.Reason.Error()
	}
	return fmt.Sprintf("docker %s: %v: %s", strings.Join(e.Args, " "), e.Err, strings.TrimSpace(e.Stderr))
}

func (e *Error) Unwrap() []error { return []error{e.Err, e.Reason} }

// Run runs the docker command. The error is an *Error, which includes what the command writes to standard error.
func Run(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	path, err := exec.LookPath("docker")
	if err != nil {
		return ErrMissing
	}
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, path, args...)
	command.Stdin, command.Stdout, command.Stderr = stdin, stdout, &stderr
	command.WaitDelay = patience
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return &Error{Args: args, Stderr: stderr.String(), Err: err, Reason: reason(stderr.String())}
	}
	return nil
}

// reason returns ErrNoEngine or ErrForbidden if a command failed because it reached no engine, or nil.
func reason(stderr string) error {
	switch {
	case strings.Contains(stderr, "permission denied while trying to connect to the Docker"),
		strings.Contains(stderr, "dial unix") && strings.Contains(stderr, "permission denied"):
		return ErrForbidden
	case strings.Contains(stderr, "Cannot connect to the Docker daemon"), strings.Contains(stderr, "error during connect"):
		return ErrNoEngine
	default:
		return nil
	}
}

// Output runs the docker command and returns what it wrote to standard output.
func Output(ctx context.Context, args ...string) (string, error) {
	var stdout bytes.Buffer
	err := Run(ctx, nil, &stdout, args...)
	return stdout.String(), err
}

// Node is a container that is a node of a kind cluster.
type Node struct {
	// Name is the container's name, and the Node's in Kubernetes.
	Name string
	// ControlPlane reports whether it is a control plane node. Otherwise it is a worker.
	ControlPlane bool
	// Running is false if the node was stopped, for example by a restart of the machine.
	Running bool
	// Status is Docker's description of its state, such as "Up 3 minutes".
	Status string
}

// Containers returns the nodes of a cluster, running or not, control planes first and then by name. It is no error if
// there are none.
func Containers(ctx context.Context, cluster string) ([]Node, error) {
	output, err := Output(ctx, "ps", "--all", "--filter", "label="+clusterLabel+"="+cluster,
		"--format", `{{.Names}}{{"\t"}}{{.Label "`+roleLabel+`"}}{{"\t"}}{{.Status}}`)
	if err != nil {
		return nil, fmt.Errorf("listing the nodes of the kind cluster %s: %w", cluster, err)
	}
	return parseContainers(output), nil
}

func parseContainers(output string) []Node {
	var nodes []Node
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue
		}
		switch fields[1] {
		case "control-plane", "worker":
			nodes = append(nodes, Node{
				Name: fields[0], ControlPlane: fields[1] == "control-plane",
				Running: strings.HasPrefix(fields[2], "Up"), Status: fields[2],
			})
		}
		// The load balancer in front of several control planes also carries the label, but runs no Pods.
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		if a.ControlPlane != b.ControlPlane {
			if a.ControlPlane {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return nodes
}

// Nodes returns the names of a cluster's nodes, control planes first. The error is ErrNoCluster if there is none. If a
// node does not run, the error explains how to start the nodes.
func Nodes(ctx context.Context, cluster string) ([]string, error) {
	containers, err := Containers(ctx, cluster)
	if err != nil {
		return nil, err
	}
	if len(containers) == 0 {
		return nil, fmt.Errorf("%s: %w", cluster, ErrNoCluster)
	}
	var names []string
	for _, node := range containers {
		if !node.Running {
			return nil, fmt.Errorf("the node %s is not running (%s): `make cluster` starts it again", node.Name, node.Status)
		}
		names = append(names, node.Name)
	}
	return names, nil
}

// Exec runs a program in a node. The error includes what it writes to standard error. A program that reads no input
// continues after ctx ends, because Docker does not end a process in a container with the command that started it. Use
// Follow for logs.
func Exec(ctx context.Context, node string, stdin io.Reader, stdout io.Writer, args ...string) error {
	command := []string{"exec"}
	if stdin != nil {
		command = append(command, "--interactive")
	}
	return Run(ctx, stdin, stdout, append(append(command, node), args...)...)
}

// follow prints a file from its beginning, and then everything that is appended, also after the file was rotated. It
// ends with its standard input, which ends when we do, even by kill -9.
const follow = `tail -n +1 -F "$1" & tail=$!; cat > /dev/null; kill $tail`

// Follow copies a file of a node to stdout, from its beginning and then everything that is appended, until ctx ends,
// which is no error. The file need not exist yet.
func Follow(ctx context.Context, node, file string, stdout io.Writer) error {
	// Nothing is ever written to this pipe. It closes when we end.
	stdin, silence := io.Pipe()
	defer silence.Close()
	path, err := exec.LookPath("docker")
	if err != nil {
		return ErrMissing
	}
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, path, "exec", "--interactive", node, "sh", "-c", follow, "follow", file)
	command.Cancel = silence.Close // then it ends by itself; if it hangs, it is killed after WaitDelay
	command.Stdin, command.Stdout, command.Stderr, command.WaitDelay = stdin, stdout, &stderr, patience
	err = command.Run()
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = errors.New("it exited")
	}
	return fmt.Errorf("following %s in the node %s: %w: %s", file, node, err, strings.TrimSpace(stderr.String()))
}

// Gateway returns this machine's IPv4 address in kind's Docker network. Nodes and Pods reach servers of this machine
// there.
func Gateway(ctx context.Context) (string, error) {
	output, err := Output(ctx, "network", "inspect", Network, "--format", "{{json .IPAM.Config}}")
	if err != nil {
		return "", fmt.Errorf("finding this machine's address in docker's network %q: %w", Network, err)
	}
	return parseGateway(output)
}

func parseGateway(output string) (string, error) {
	var subnets []struct{ Subnet, Gateway string }
	if err := json.Unmarshal([]byte(output), &subnets); err != nil {
		return "", fmt.Errorf("reading docker's network %q: %w", Network, err)
	}
	for _, subnet := range subnets {
		if address, err := netip.ParseAddr(subnet.Gateway); err == nil && address.Is4() {
			return address.String(), nil
		}
		// Docker names no gateway while a network has no container. It will be the first address.
		if prefix, err := netip.ParsePrefix(subnet.Subnet); err == nil && prefix.Addr().Is4() && subnet.Gateway == "" {
			return prefix.Masked().Addr().Next().String(), nil
		}
	}
	return "", fmt.Errorf("docker's network %q has no IPv4 address: "+
		"`docker network rm %s` removes it when no cluster runs, and kind creates it again", Network, Network)
}

// Import loads the images of a docker archive into a node for the kubelet. Images that the node already has are read,
// but not stored again.
func Import(ctx context.Context, node string, archive func(io.Writer) error) error {
	read, write := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := archive(write)
		write.CloseWithError(err)
		written <- err
	}()
	err := Exec(ctx, node, read, io.Discard, "ctr", "--namespace=k8s.io", "images", "import", "-")
	read.CloseWithError(errors.New("the node stopped reading"))
	if failed := <-written; failed != nil && err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("importing images into the node %s: %w", node, err)
	}
	return nil
}

// ImageIDs returns a node's images: the digest of each configuration ("sha256:…", which Docker calls the image's ID) by
// reference, such as "docker.io/library/busybox:1", and by name and digest.
func ImageIDs(ctx context.Context, node string) (map[string]string, error) {
	var output bytes.Buffer
	if err := Exec(ctx, node, nil, &output, "crictl", "images", "--output", "json"); err != nil {
		return nil, fmt.Errorf("listing the images of the node %s: %w", node, err)
	}
	return parseImageIDs(output.Bytes())
}

func parseImageIDs(output []byte) (map[string]string, error) {
	var list struct {
		Images []struct {
			ID          string   `json:"id"`
			RepoTags    []string `json:"repoTags"`
			RepoDigests []string `json:"repoDigests"`
		} `json:"images"`
	}
	if err := json.Unmarshal(output, &list); err != nil {
		return nil, fmt.Errorf("reading crictl's list of images: %w", err)
	}
	ids := map[string]string{}
	for _, image := range list.Images {
		for _, reference := range slices.Concat(image.RepoTags, image.RepoDigests) {
			ids[reference] = image.ID
		}
	}
	return ids, nil
}

// Canonical returns the full name by which containerd knows an image: "operator-labs/probe:v1" is
// "docker.io/operator-labs/probe:v1".
func Canonical(reference string) string {
	first, _, found := strings.Cut(reference, "/")
	switch {
	case !found:
		return "docker.io/library/" + reference
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return reference
	default:
		return "docker.io/" + reference
	}
}
