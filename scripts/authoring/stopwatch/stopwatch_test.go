// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package stopwatch

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, stat string
		want       processors
	}{
		{
			"Linux 6", "cpu  1000 20 300 4000 50 6 7 800 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n",
			processors{busy: 13330 * time.Millisecond, idle: 40500 * time.Millisecond, known: true},
		},
		{"cut off", "cpu  1000 20 300\n", processors{}},
		{"empty", "", processors{}},
	} {
		if got := parse(strings.NewReader(test.stat)); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// A loop that uses a processor for 0.2 s is measured as such, regardless of other work on the machine.
func TestElapsedCountsWork(t *testing.T) {
	t.Parallel()
	watch := Start()
	turns := 0
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
		turns++
	}
	elapsed := watch.Elapsed()
	if turns == 0 || elapsed.Wall < 300*time.Millisecond {
		t.Errorf("0.3 s were measured as %s", elapsed.Wall)
	}
	if elapsed.Known && (elapsed.CPU <= 0 || elapsed.Idle < 0 || elapsed.Idle >= 1) {
		t.Errorf("a busy machine is measured as %+v", elapsed)
	}
	if text := elapsed.String(); elapsed.Known != strings.HasSuffix(text, " % idle") {
		t.Errorf("Known = %t, String() = %q", elapsed.Known, text)
	}
}
