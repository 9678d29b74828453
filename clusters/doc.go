// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package clusters holds the code that starts, fills and removes the clusters that labs run on.
//
// A cluster is embedded (processes of this machine, with clusters/node as its only node), a kind cluster, or an
// existing one. The other packages build images, install add-ons, and manage processes and files. None of them knows a
// lab: code that does is in scripts.
package clusters
