// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package connectivity proves that a cluster's network works: Pods reach each other across nodes, Services, NodePorts
// and DNS names work, and network policies deny and allow traffic. Each proof is an e2e-framework feature. The proofs
// need the course's probe image on every node. They use a namespace of their own, and remove it. The package does not
// install a network: clusters/addons does.
//
// Features need a testing.T, which a command does not have. So Run starts the calling program a second time. There,
// main calls Child first, which runs the features as a test.
package connectivity
