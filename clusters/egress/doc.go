// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package egress connects an embedded cluster's API server to Services. It forwards a connection to a ClusterIP to the
// local process that serves it, as kube-proxy would forward it to a Pod. It knows nothing of webhooks or certificates,
// and does not inspect the bytes that it forwards.
//
// The API server requests a connection with the HTTP method CONNECT, at a Unix socket that its
// EgressSelectorConfiguration names (KEP-1281). If no process listens there, or no process serves the Service, its call
// fails, as in a cluster in which the Pods behind the Service are gone.
package egress
