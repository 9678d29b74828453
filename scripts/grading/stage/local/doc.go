// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package local is a stage whose operators run as processes of this machine: with their account's kubeconfig, at ports
// that no two of them have at the same time, and asked by the API server by whatever way there is from it to here.
package local
