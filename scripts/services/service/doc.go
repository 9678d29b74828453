// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package service has what the services beside a lab's cluster, as the freezer and the cloud, have in common: how they
// answer, how checks ask them, and how they keep what they know.
package service
