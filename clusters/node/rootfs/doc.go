// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package rootfs creates the root file systems of containers from images, which it finds by package images/named. It
// unpacks each layer once, and all containers share the layer read-only. A container writes to a folder of its own,
// which overlayfs mounts on top where the kernel lets a user mount one. Elsewhere each container has a copy.
package rootfs
