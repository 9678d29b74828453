// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package addons installs what labs need in a cluster besides Kubernetes itself: Cilium (the network of a kind
// cluster), cert-manager, Pebble (an ACME server) and an Ingress controller. The same code serves every kind of
// cluster, and a Target describes what is possible in one.
//
// An add-on is installed from its own chart by the Helm SDK, or from a manifest where there is no chart. It continues
// after an install or upgrade that was interrupted or failed. It then waits until the add-on is usable, which takes
// more than available Deployments. On a shared cluster it does not change objects that it did not create. The package
// does not create clusters or load images.
package addons
