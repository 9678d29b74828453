// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"lva.io/operators/clusters/config"
)

// Profile is a configuration that a cluster can be created from: a file of clusters/config/kind.
type Profile struct {
	// Name is the file's name without its extension.
	Name string
	// Hash changes when the file or the audit policy changes, which a cluster is created from.
	Hash string

	cluster v1alpha4.Cluster
}

// Profiles returns the names of all profiles.
func Profiles() []string {
	entries, err := config.Kind.ReadDir("kind")
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	return names
}

// LoadProfile reads a profile. It returns an error if there is none with that name, or if kind would reject it.
func LoadProfile(name string) (*Profile, error) {
	if !slices.Contains(Profiles(), name) {
		return nil, fmt.Errorf("there is no profile %q: choose one of %s, or add clusters/config/kind/%s.yaml",
			name, strings.Join(Profiles(), ", "), name)
	}
	content, err := config.Kind.ReadFile(path.Join("kind", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the profile %s: %w", name, err)
	}
	profile, err := parseProfile(name, content)
	if err != nil {
		return nil, fmt.Errorf("clusters/config/kind/%s.yaml: %w", name, err)
	}
	return profile, nil
}

func parseProfile(name string, content []byte) (*Profile, error) {
	profile := &Profile{Name: name}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&profile.cluster); err != nil {
		return nil, fmt.Errorf("this is not kind's configuration: %w", err)
	}
	if c := profile.cluster; c.Kind != "Cluster" || c.APIVersion != "kind.x-k8s.io/v1alpha4" {
		return nil, fmt.Errorf("it must have kind Cluster and apiVersion kind.x-k8s.io/v1alpha4, not %q and %q",
			c.Kind, c.APIVersion)
	}
	if profile.cluster.Name != "" {
		return nil, fmt.Errorf("it must not have a name: --name sets the cluster's name")
	}
	for _, node := range profile.cluster.Nodes {
		if node.Role != v1alpha4.ControlPlaneRole && node.Role != v1alpha4.WorkerRole {
			return nil, fmt.Errorf("a node's role is %s or %s, not %q",
				v1alpha4.ControlPlaneRole, v1alpha4.WorkerRole, node.Role)
		}
	}
	if profile.ControlPlanes() == 0 {
		return nil, fmt.Errorf("it needs a node with the role %s", v1alpha4.ControlPlaneRole)
	}
	sum := sha256.New()
	sum.Write(content)
	sum.Write(config.AuditPolicy)
	profile.Hash = hex.EncodeToString(sum.Sum(nil))[:16]
	return profile, nil
}

// Nodes returns the number of the cluster's nodes.
func (p *Profile) Nodes() int { return len(p.cluster.Nodes) }

// ControlPlanes returns how many of them are control planes.
func (p *Profile) ControlPlanes() int {
	n := 0
	for _, node := range p.cluster.Nodes {
		if node.Role == v1alpha4.ControlPlaneRole {
			n++
		}
	}
	return n
}

// Image returns the node image of the profile, or "".
func (p *Profile) Image() string {
	for _, node := range p.cluster.Nodes {
		if node.Image != "" {
			return node.Image
		}
	}
	return ""
}

// ToleratesCgroupV1 reports whether the kubelets start on a machine with cgroup v1. Those of Kubernetes 1.35 and later
// refuse to, unless they are configured otherwise (KEP-4569).
func (p *Profile) ToleratesCgroupV1() bool {
	patches := slices.Clone(p.cluster.KubeadmConfigPatches)
	for _, node := range p.cluster.Nodes {
		patches = append(patches, node.KubeadmConfigPatches...)
	}
	for _, patch := range patches {
		var kubelet struct {
			Kind         string `yaml:"kind"`
			FailCgroupV1 *bool  `yaml:"failCgroupV1"`
		}
		if yaml.Unmarshal([]byte(patch), &kubelet) == nil && kubelet.Kind == "KubeletConfiguration" &&
			kubelet.FailCgroupV1 != nil && !*kubelet.FailCgroupV1 {
			return true
		}
	}
	return false
}

// Port is a port of this machine that a cluster uses.
type Port struct {
	Address string
	Number  int
	// Protocol is tcp, udp or sctp.
	Protocol string
	// What is the purpose of the port.
	What string
}

// Ports returns the ports of this machine that the profile asks for by number.
func (p *Profile) Ports() []Port {
	var ports []Port
	if n := p.cluster.Networking.APIServerPort; n > 0 {
		address := p.cluster.Networking.APIServerAddress
		if address == "" {
			address = "127.0.0.1"
		}
		ports = append(ports, Port{
			Address: address, Number: int(n), Protocol: "tcp",
			What: "the API server (networking.apiServerPort)",
		})
	}
	for _, node := range p.cluster.Nodes {
		for _, mapping := range node.ExtraPortMappings {
			if mapping.HostPort <= 0 {
				continue
			}
			port := Port{
				Address: mapping.ListenAddress, Number: int(mapping.HostPort), Protocol: strings.ToLower(string(mapping.Protocol)),
				What: fmt.Sprintf("a node's port %d (extraPortMappings)", mapping.ContainerPort),
			}
			if port.Address == "" {
				port.Address = "0.0.0.0"
			}
			if port.Protocol == "" {
				port.Protocol = "tcp"
			}
			ports = append(ports, port)
		}
	}
	return ports
}

// forCluster returns the profile as kind gets it: with names of this machine in the API server's certificate if it
// listens on more than the loopback address, and with host paths that are absolute.
func (p *Profile) forCluster(name, folder string) (*v1alpha4.Cluster, error) {
	cluster := p.cluster.DeepCopy()
	cluster.Name = name
	for i := range cluster.Nodes {
		for j := range cluster.Nodes[i].ExtraMounts {
			if mount := &cluster.Nodes[i].ExtraMounts[j]; !filepath.IsAbs(mount.HostPath) {
				mount.HostPath = filepath.Join(folder, mount.HostPath)
			}
		}
	}
	if names := p.certificateNames(); len(names) > 0 {
		var patch []map[string]string
		for _, name := range names {
			patch = append(patch, map[string]string{"op": "add", "path": "/apiServer/certSANs/-", "value": name})
		}
		content, err := json.Marshal(patch)
		if err != nil {
			return nil, fmt.Errorf("naming this machine in the API server's certificate: %w", err)
		}
		cluster.KubeadmConfigPatchesJSON6902 = append(cluster.KubeadmConfigPatchesJSON6902, v1alpha4.PatchJSON6902{
			Group: "kubeadm.k8s.io", Version: "v1beta4", Kind: "ClusterConfiguration", Patch: string(content),
		})
	}
	return cluster, nil
}

// certificateNames returns this machine's names and addresses, if other machines are to reach the API server.
func (p *Profile) certificateNames() []string {
	address := net.ParseIP(p.cluster.Networking.APIServerAddress)
	if address == nil || address.IsLoopback() {
		return nil
	}
	names := []string{"127.0.0.1"}
	if host, err := os.Hostname(); err == nil && host != "" {
		names = append(names, host)
	}
	return append(names, Addresses()...)
}

// Addresses returns this machine's IPv4 addresses at which other machines may reach it: those of its interfaces that
// are up, except loopback and Docker's own bridges.
func Addresses() []string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var addresses []string
	for _, one := range interfaces {
		if one.Flags&net.FlagUp == 0 || one.Flags&net.FlagLoopback != 0 || strings.HasPrefix(one.Name, "docker") ||
			strings.HasPrefix(one.Name, "br-") || strings.HasPrefix(one.Name, "veth") {
			continue
		}
		all, err := one.Addrs()
		if err != nil {
			continue
		}
		for _, address := range all {
			if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
				addresses = append(addresses, network.IP.String())
			}
		}
	}
	return addresses
}
