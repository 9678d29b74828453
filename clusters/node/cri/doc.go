// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cri is a container runtime as the kubelet sees one: the server of the Container Runtime Interface (CRI,
// https://kubernetes.io/docs/concepts/containers/cri/). The kubelet knows what should run; the server makes sandboxes,
// which are what the containers of a Pod share, and containers. The work is done elsewhere: package namespace makes
// what is shared, package rootfs the files, package keeper starts and keeps the processes, and the Network addresses
// and Services.
//
// What it decides, it writes down (records_linux.go), in a folder that goes with the node. A server that is started
// again reads it, asks the keeper what still runs, and goes on: containers don't notice.
package cri
