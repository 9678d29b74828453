// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"testing"
	"time"
)

// No test suspends the machine. The difference of the two clocks stays the same, and is no date.
func TestSuspendedIsStableWhileRunning(t *testing.T) {
	t.Parallel()
	before := suspended()
	<-time.After(50 * time.Millisecond) // both clocks must advance alike
	const years = 10 * 365 * 24 * time.Hour
	if after := suspended(); before < 0 || before > years || (after-before).Abs() >= stallTolerated {
		t.Errorf("suspended() = %s, and 50 ms later %s", before, after)
	}
}
