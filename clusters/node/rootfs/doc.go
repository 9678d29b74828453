// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package rootfs makes the files of containers from images (package images/named says which): a layer is unpacked once,
// and all containers share it without being able to write to it. What a container writes goes to a folder of its own,
// which overlayfs lays on top where the kernel lets a user mount one; elsewhere each container has a copy.
package rootfs
