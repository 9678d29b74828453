// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package container runs one program in a container: a process with a file system, process numbers and rights of its
// own, in a network that it shares with its Pod.
//
// Start is called by the parent; it starts the parent's own program again, as the container's first process, with the
// namespaces that only fork can make. There, Main does the rest, in this order (setup_linux.go):
//
//  1. Its files: the image's layers, below a writable one (package rootfs has unpacked them); /proc, /sys and /dev; the
//     volumes. Then pivot_root: there is no way back to the node's files.
//  2. Its rights: the capabilities that it may ever have, its user and groups, the system calls that it may not use.
//  3. exec: the process becomes the program, and is number 1 of its process namespace.
//
// A program that is started in a container that runs already (kubectl exec, a probe) enters its namespaces instead of
// the first step. Package keeper keeps containers and writes their logs; package cri decides what is run.
package container
