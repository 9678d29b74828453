// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package container runs one program in a container: a process with a file system, process numbers and rights of its
// own, in a network that it shares with its Pod.
//
// The parent calls Start, which starts the parent's own program again as the container's first process, with the
// namespaces that only fork can create. There, Main does the rest, in this order (setup_linux.go):
//
//  1. Files: it mounts the image's layers, which package rootfs has unpacked, below a writable one, then /proc, /sys
//     and /dev, and the volumes. After pivot_root the process can't reach the node's files any more.
//  2. Rights: it sets the capabilities that the program can ever have, its user and groups, and the system calls that
//     it may not use.
//  3. exec: the process becomes the program, and is number 1 of its process namespace.
//
// A program that is started in a running container (kubectl exec, a probe) enters the container's namespaces in place
// of the first step. Package keeper keeps containers and writes their logs. Package cri decides what is run.
package container
