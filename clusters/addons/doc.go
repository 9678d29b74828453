// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package addons installs what labs need in a cluster besides Kubernetes itself: Cilium, the network of a kind cluster;
// cert-manager; Pebble, an ACME server; and an Ingress controller. It is written once for every kind of cluster, and
// knows none of them: a Target says what can be done there.
//
// An add-on installs itself from its own chart by the Helm SDK, or from a manifest where there is no chart, goes on
// after an install or upgrade that was interrupted or failed, and waits until it is usable, which is more than that its
// Deployments are available. On a cluster of somebody else it changes nothing that it did not create. It does not make
// clusters, and it loads no images.
package addons
