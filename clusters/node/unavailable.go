// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package node

import "lva.io/operators/clusters/node/namespace"

// Unavailable reports that there can be no node on this machine, why, and what to do.
type Unavailable = namespace.Unavailable
