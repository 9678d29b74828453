// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"sync"

	"lva.io/operators/clusters/node/container"
)

// systemCalls is a filter that allows a program the system calls that a container without privileges has. If there is
// no filter for the processor, the wall is missing.
var systemCalls = sync.OnceValue(func() []byte {
	filter, err := container.DefaultFilter()
	if err != nil {
		return nil
	}
	return filter
})
