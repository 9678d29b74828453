// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLagIgnoresOtherObjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lag Lag
		if lag.Now() != 0 {
			t.Errorf("Now() before the first object = %s", lag.Now())
		}
		lag.Sent("ada")
		lag.Sent("grace")
		<-time.After(20 * time.Millisecond)
		lag.Arrived("ada")
		if lag.Now() != 20*time.Millisecond {
			t.Errorf("Now() after 20 ms = %s", lag.Now())
		}
		lag.Arrived("somebody-else")
		lag.Arrived("ada")
		if lag.Now() != 20*time.Millisecond {
			t.Errorf("Now() after other objects and changes = %s", lag.Now())
		}
		<-time.After(30 * time.Millisecond)
		lag.Arrived("grace")
		if lag.Now() != 50*time.Millisecond {
			t.Errorf("Now() after 50 ms = %s", lag.Now())
		}
	})
}
