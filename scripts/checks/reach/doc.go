// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package reach connects a check to a Pod of the cluster through the API server, as `kubectl port-forward` does. This
// works on every kind of cluster. The package starts nothing in the cluster, and bypasses the Service: it picks a ready
// Pod behind it.
package reach
