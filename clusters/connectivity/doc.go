// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package connectivity proves that a cluster's network works: Pods reach each other across nodes, and Services,
// NodePorts and DNS names; policies deny and allow. Each proof is an e2e-framework feature. It needs the course's image
// probe in every node, keeps to a namespace of its own, and removes it. It does not install a network: that is
// clusters/addons.
//
// Features need a testing.T, and a command has none. So Run starts the program that calls it a second time, and there
// Child, the first thing that its main calls, becomes a test.
package connectivity
