// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package cloud is how the operator talks to the cloud: docs/reference/cloud.md describes its API. It decides nothing.
package cloud
