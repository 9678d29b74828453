// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package images makes the container images of a cluster from Go modules and Debian packages, without Docker and
// without a registry: the node image of kind, Kubernetes' own images, those of the add-ons, the course's own. It does
// not load them anywhere (clusters/docker and clusters/kind do) and installs nothing in a cluster (clusters/addons
// does).
//
//   - The catalogue (catalogue.yaml) says what each image is made of.
//   - A Store keeps what was made, by content: a layer, or an image, is made once for each state of what it is made
//     from. Made twice from the same, it is the same, byte for byte.
//   - An archive is how images get into Docker or containerd, a bundle how they get to a machine that has no compiler.
//
// Images bear the names that they have in their registries, so that manifests and charts are the same with a registry
// and without one.
package images
