// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"lva.io/operators/clusters/process/supervisor"
)

// systemFiles are the files of the system that programs need: programs and libraries, certificates, names and time
// zones. Other files of /etc may hold secrets, and a program of root could read them. /proc and some devices are added
// to these.
var systemFiles = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/group", "/etc/host.conf", "/etc/hosts",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release",
	"/etc/passwd", "/etc/protocols", "/etc/resolv.conf",
	"/etc/services", "/etc/timezone", "/sys/fs/cgroup",
	// Other folders beside the certificates contain keys.
	"/etc/pki/ca-trust/extracted", "/etc/pki/tls/cert.pem", "/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf",
	"/etc/ssl/cert.pem", "/etc/ssl/certs", "/etc/ssl/openssl.cnf",
}

// builtWalls are allWalls as a supervisor knows them.
var builtWalls = []supervisor.Built{supervisor.PrivateRoot, supervisor.Files, supervisor.Network, supervisor.Calls}

// walls returns the walls of a program, for its supervisor.
func (s *Scope) walls(spec Spec) (*supervisor.Walls, error) {
	root := filepath.Join(s.Dir, "root")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("creating a folder for the root of %s: %w", spec.Name, err)
	}
	clean := func(paths ...string) (cleaned []string) {
		for _, path := range paths {
			if path, err := filepath.Abs(path); err == nil && path != "/" {
				cleaned = append(cleaned, path)
			}
		}
		return cleaned
	}
	set := func(walls []Wall) (set supervisor.Built) {
		for i, wall := range builtWalls {
			if slices.Contains(walls, allWalls[i]) {
				set |= wall
			}
		}
		return set
	}
	return &supervisor.Walls{
		Require: set(spec.Walls.Require), Without: set(spec.Walls.without),
		Root: root, Read: clean(append(slices.Concat(systemFiles, spec.Walls.Read), spec.Path)...),
		Write:   clean(append(slices.Clip(spec.Walls.Write), spec.Dir)...),
		Connect: spec.Walls.Connect, OwnNetwork: spec.Walls.OwnNetwork, Calls: spec.Walls.Calls,
	}, nil
}

// walls returns the walls that a supervisor has built.
func (c *supervision) walls() (walls []Wall) {
	for i, wall := range builtWalls {
		if c.built&wall != 0 {
			walls = append(walls, allWalls[i])
		}
	}
	return walls
}
