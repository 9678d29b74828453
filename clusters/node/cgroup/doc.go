// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cgroup creates the control group of a node, in which limits of containers take effect (cgroups(7)). The
// machine must have only version 2 of control groups, and must allow one to the user who starts the node. Root may have
// one. So may users with a systemd of their own (systemd --user) to which the machine's systemd has delegated some or
// all controllers.
//
//	operator-labs-SCOPE/        the node's, which its root may change
//	                            (for an ordinary user, a systemd scope: operator-labs-SCOPE.scope)
//	    node/                   its own programs
//	    CONTAINER/              one for each container, created by package cri
//
// A group with processes can't have groups below it that divide its resources. That is why the node's programs have a
// group of their own.
package cgroup
