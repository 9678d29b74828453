// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cgroup makes the control group of a node, in which limits of containers hold (cgroups(7)): where the machine
// has version 2 of control groups only, and the user who starts the node may have one. Root may, and so may users who
// have a systemd of their own (systemd --user) to which the machine's has delegated controllers: all, or some.
//
//	operator-labs-SCOPE/        the node's, which its root may change; an ordinary user's is a scope of systemd's: operator-labs-SCOPE.scope
//	    node/                   its own programs
//	    CONTAINER/              one for each container, made by package cri
//
// A group with members can't have groups below it that divide its resources. That is why the programs have one for
// themselves.
package cgroup
