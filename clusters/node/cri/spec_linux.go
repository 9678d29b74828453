// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"fmt"
	"os"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/rootfs"
)

// rootfsNothing is an image without files.
var rootfsNothing = rootfs.Image{}

// spec returns the Spec of a container, from the kubelet's configuration and the image's.
func (s *Server) spec(b *sandbox, c *containerRecord) (container.Spec, error) {
	spec, err := s.process(b, c)
	if err != nil {
		return spec, err
	}
	security := c.config.GetLinux().GetSecurityContext()
	spec.Args = argsOf(c)
	spec.Root = c.Root
	spec.Terminal = c.config.Tty
	spec.NodeProcesses = security.GetNamespaceOptions().GetPid() == runtimeapi.NamespaceMode_NODE
	spec.OOMScoreAdjust = int(c.config.GetLinux().GetResources().GetOomScoreAdj())
	if !security.GetPrivileged() {
		spec.Masked, spec.ReadOnly = security.GetMaskedPaths(), security.GetReadonlyPaths()
	}
	spec.Devices = security.GetPrivileged()
	if spec.Cgroup, err = s.createCgroup(c); err != nil {
		return spec, err
	}
	// These are part of the root file system to a Pod that makes it read-only, and all containers of a Pod share them.
	spec.Mounts = []container.Mount{
		{Source: s.path(b.ID, "resolv.conf"), Target: "/etc/resolv.conf", ReadOnly: c.Root.ReadOnly},
		{Source: s.path(b.ID, "hostname"), Target: "/etc/hostname", ReadOnly: c.Root.ReadOnly},
	}
	for _, mount := range c.config.Mounts {
		m, err := s.mount(mount)
		if err != nil {
			return spec, fmt.Errorf("the volume at %s: %w", mount.ContainerPath, err)
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	// A volume that is mounted inside another volume must be mounted after it.
	slices.SortStableFunc(spec.Mounts, func(a, b container.Mount) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	return spec, nil
}

// process returns the part of a Spec that applies to every program in a container: its first one, and those that are
// started in it later.
func (s *Server) process(b *sandbox, c *containerRecord) (container.Spec, error) {
	security := c.config.GetLinux().GetSecurityContext()
	spec := container.Spec{
		Dir: c.config.WorkingDir, User: c.User, Group: c.Group, Groups: c.Groups, NoNewPrivileges: security.GetNoNewPrivs(),
	}
	if spec.Dir == "" {
		spec.Dir = c.ImageDir
	}
	spec.Env = environment(b, c)
	switch security.GetSeccomp().GetProfileType() {
	case runtimeapi.SecurityProfile_RuntimeDefault:
		spec.Seccomp = !security.GetPrivileged()
	case runtimeapi.SecurityProfile_Localhost:
		return spec, fmt.Errorf("the node has no seccomp profile %q: use RuntimeDefault or Unconfined",
			security.GetSeccomp().GetLocalhostRef())
	default:
	}
	spec.Capabilities = container.AllCapabilities()
	if !security.GetPrivileged() {
		var err error
		changes := security.GetCapabilities()
		if spec.Capabilities, err = container.WithCapabilities(container.Unprivileged,
			changes.GetAddCapabilities(), changes.GetDropCapabilities()); err != nil {
			return spec, err
		}
	}
	return spec, nil
}

// argsOf returns the command line. A Pod's command replaces the image's entrypoint and arguments. A Pod's arguments
// replace only the image's arguments.
func argsOf(c *containerRecord) []string {
	if len(c.config.Command) > 0 {
		return slices.Concat(c.config.Command, c.config.Args)
	}
	if len(c.config.Args) > 0 {
		return slices.Concat(c.Entrypoint, c.config.Args)
	}
	return slices.Concat(c.Entrypoint, c.Cmd)
}

// environment returns the image's variables, followed by the Pod's.
func environment(b *sandbox, c *containerRecord) []string {
	hostname := b.config.GetHostname()
	if hostname == "" {
		hostname, _ = os.Hostname() // the node's
	}
	variables := []string{"PATH=" + container.Path, "HOSTNAME=" + hostname, "HOME=" + c.Home}
	if c.config.Tty {
		variables = append(variables, "TERM=xterm")
	}
	variables = append(variables, c.ImageEnv...)
	for _, variable := range c.config.Envs {
		variables = append(variables, variable.Key+"="+string(variable.Value))
	}
	// The last value of a name counts. It appears at the position of the first.
	position := map[string]int{}
	var result []string
	for _, variable := range variables {
		name, _, _ := strings.Cut(variable, "=")
		if at, found := position[name]; found {
			result[at] = variable
			continue
		}
		position[name] = len(result)
		result = append(result, variable)
	}
	return result
}

func (s *Server) mount(m *runtimeapi.Mount) (container.Mount, error) {
	mount := container.Mount{
		Source: m.HostPath, Target: m.ContainerPath, ReadOnly: m.Readonly,
		Propagate: m.Propagation == runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER,
		Share:     m.Propagation == runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL,
	}
	if reference := m.GetImage().GetImage(); reference != "" {
		image, err := s.Files.Image(reference)
		if err != nil {
			return mount, imageError(reference, err)
		}
		if err := s.Files.Unpack(image); err != nil {
			return mount, err
		}
		mount.Image, mount.SubPath = true, m.ImageSubPath
		mount.Source = strings.Join(s.Files.Folders(image), ":")
		return mount, nil
	}
	// A hostPath without a type is created if it does not exist, as other container runtimes do.
	if _, err := os.Stat(m.HostPath); os.IsNotExist(err) {
		if err := os.MkdirAll(m.HostPath, 0o755); err != nil {
			return mount, err
		}
	}
	return mount, nil
}
