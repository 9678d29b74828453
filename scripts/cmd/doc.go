// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cmd groups the commands: lab, cluster, and the small programs that make runs before these are built.
//
// A command parses its arguments, connects packages of the other wings, and reports errors. All other work belongs in
// one of those wings, and none of them imports a command. The small programs (bootstrap, arrive, doctor, fresh) import
// few packages, so that they compile within seconds.
package cmd
