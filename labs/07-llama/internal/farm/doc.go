// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package farm shows the Pods of the cluster as FarmPods. It stores nothing: it makes each answer from the API server's
// Pods, and only for a user who may read Pods.
package farm
