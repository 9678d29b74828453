// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package namespace runs a process in namespaces of its own (users, mounts, network, process numbers, host name:
// namespaces(7)), without root. The node of an embedded cluster runs in them.
//
//   - Choose selects the users: a range of IDs where the system delegates one, else only our own.
//   - Start creates the namespaces with their first process. All their processes end with it, and it ends with us.
//   - Root is the file system that the first process creates and moves into. It shows only the configured files of the
//     machine.
//   - A Crossing connects to the machine's network. A socket belongs to the network in which it was created, whichever
//     process holds it, so one side creates it and passes it to the other.
//   - A Set is the namespaces that the containers of a Pod share.
//
// It runs no containers: package container does.
package namespace
