// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package namespace gives a process a machine of its own: users, mounts, a network, process numbers, a host name
// (namespaces(7)), without root. It is what the node of an embedded cluster runs in.
//
//   - Choose says which users there will be: a range of ids where the system lends one, else only our own.
//   - Start makes the namespaces with their first process. All that is in them ends with it, and it ends with us.
//   - Root is the file system that the first process makes and moves into. Of the machine's it shows what it was told
//     to.
//   - A Crossing leads out: a socket belongs to the network in which it was made, whoever holds it, so one side makes
//     it and passes it to the other.
//   - A Set is the namespaces that the containers of a Pod share.
//
// It runs no containers: package container does.
package namespace
