// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cgroup makes the control group of a node, in which limits of containers hold (cgroups(7)): where the machine has version 2
// of control groups, and whoever starts the node may make some, as root may, and users to whom systemd delegates theirs.
//
//	operator-labs-SCOPE/        the node's, which its root may change
//	    node/                   its own programs
//	    CONTAINER/              one for each container, made by package cri
//
// A group with members can't have groups below it that divide its resources. That is why the programs have one for themselves.
package cgroup
