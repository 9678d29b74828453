// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package controller brings WebApps to the state that their specs ask for: a Deployment and a NodePort Service each. It
// touches nothing that is not its own, and leaves deleting to the garbage collector.
package controller
