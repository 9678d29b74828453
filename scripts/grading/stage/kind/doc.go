// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package kind is what a stage needs of the nodes of a kind cluster, which are containers of Docker: images brought to
// them, a container killed in them, the audit log that the API server writes there, and the certificate of its front
// proxy.
package kind
