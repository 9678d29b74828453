// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
)

func TestStarved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		used protocol.Usage
		want bool
	}{
		"it waits for a processor":     {protocol.Usage{Known: true, CPU: 0.3, Waited: 12}, true},
		"it hangs":                     {protocol.Usage{Known: true, CPU: 0.1, Waited: 0.2}, false},
		"it loops forever":             {protocol.Usage{Known: true, CPU: 9, Waited: 20}, false},
		"it is a Pod of unknown usage": {protocol.Usage{}, false},
		"it shares a processor":        {protocol.Usage{Known: true, CPU: 0.5, Waited: 3}, false},
	} {
		if got := starved(test.used, 20*time.Second); got != test.want {
			t.Errorf("%s: starved() = %v", name, got)
		}
	}
}

// An operator that has not begun is not blamed if the machine had no processor for the grader.
func TestStarvedGraderIsMachineError(t *testing.T) {
	t.Parallel()
	got := (&operator{machine: &machine{cut: true}}).tooBusy(20 * time.Second)
	if got == nil || got.outcome != report.Error || !got.machine ||
		!strings.Contains(got.reason, "in 1m40s the grader got less than 1/5 of the processor time") {
		t.Errorf("tooBusy() = %v, want a machine error", got)
	}
}

// An operator that has not begun is not blamed if its API server does not answer either.
func TestUnresponsiveAPIServerIsMachineError(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	busy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}))
	defer busy.Close()
	defer close(ended)
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ready.Close()
	at := func(url string) *verdict {
		return (&operator{
			subject: &subject{cluster: &stage.Cluster{Config: &rest.Config{Host: url}}},
		}).tooBusy(20 * time.Second)
	}
	if got := at(ready.URL); got != nil {
		t.Errorf("with a ready API server, the verdict is %v, want nil", got)
	}
	if got := at(busy.URL); got == nil || got.outcome != report.Error || !got.machine ||
		!strings.HasPrefix(got.reason, "this machine was too busy") {
		t.Errorf("with an unresponsive API server, the verdict is %v, want a machine error", got)
	}
}
