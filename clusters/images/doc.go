// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package images builds the container images of a cluster from Go modules and Debian packages, without Docker and
// without a registry: kind's node image, Kubernetes' own images, and those of the add-ons and the course. It does not
// load them anywhere (clusters/docker and clusters/kind do) and installs nothing in a cluster (clusters/addons does).
//
//   - The catalogue (catalogue.yaml) defines the contents of each image.
//   - A Store keeps what was built, by content. It builds a layer or an image once for each state of its sources. A
//     second build from the same sources produces the same bytes.
//   - An archive transports images into Docker or containerd, and a bundle to a machine that has no compiler.
//
// Images have the names that they have in their registries, so that manifests and charts are the same with a registry
// and without one.
package images
