// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cri implements a container runtime for the kubelet: the server of the Container Runtime Interface (CRI,
// https://kubernetes.io/docs/concepts/containers/cri/). The kubelet knows what should run. The server creates
// containers and sandboxes, which hold what the containers of a Pod share. Other packages do the work: namespace
// creates the shared namespaces, rootfs the files, keeper starts and keeps the processes, and the Network provides
// addresses and Services.
//
// The server records its decisions (records_linux.go) in a folder that is removed with the node. After a restart it
// reads them, asks the keeper what still runs, and continues. Containers are not affected.
package cri
