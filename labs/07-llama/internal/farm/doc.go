// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package farm shows the Pods of the cluster as FarmPods. It stores nothing: each answer is made of what the API server
// says of Pods, to somebody who may ask for Pods.
package farm
