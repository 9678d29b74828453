// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package reach connects a check to a Pod of the cluster, as `kubectl port-forward` does: by the API server, so that it
// works on every kind of cluster. It starts nothing there, and does not go the way of a Service: it picks a Pod that is
// ready behind it.
package reach
