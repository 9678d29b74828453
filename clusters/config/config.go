// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package config embeds the YAML from which clusters are created and which an instructor edits. It contains no logic.
package config

import "embed"

// AuditPolicy is the API server's audit policy, on every kind of cluster.
//
//go:embed audit-policy.yaml
var AuditPolicy []byte

// Kind holds kind's configuration of each profile, such as kind/student.yaml.
//
//go:embed kind/*.yaml
var Kind embed.FS

// Addons holds the Helm values of add-ons, such as addons/cilium.yaml.
//
//go:embed addons/*.yaml
var Addons embed.FS
