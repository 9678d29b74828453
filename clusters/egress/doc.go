// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package egress is where an embedded cluster's API server goes out to Services: it leads a connection to a ClusterIP
// to the local process that serves it, as kube-proxy would lead it to a Pod. It knows nothing of webhooks or
// certificates, and looks at no byte of what it carries.
//
// The API server asks for a connection by the CONNECT method of HTTP, at a Unix socket that its
// EgressSelectorConfiguration names (KEP-1281). If no process listens, or no process serves the Service, its call
// fails, as in a cluster in which the Pods behind the Service are gone.
package egress
