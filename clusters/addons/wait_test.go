// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/longtest"
)

func TestTimeoutErrorExplainsPods(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	s.install(t)
	// The cluster has no node for the Pods. The patience begins when the scheduler has reported that, so that it is also
	// in the error on a slow machine.
	if err := until(t.Context(), time.Minute, "an Event of the scheduler", func(ctx context.Context) (string, error) {
		events, err := s.client.CoreV1().Events(certManagerNamespace).List(ctx,
			metav1.ListOptions{FieldSelector: "reason=FailedScheduling"})
		if err != nil {
			return "", err
		}
		if len(events.Items) < 3 {
			return fmt.Sprintf("%d of 3 Pods have one", len(events.Items)), nil
		}
		return "", nil
	}); err != nil {
		t.Fatal(err)
	}
	s.target.Pods = true
	addon := &certManager{charts: charts(t).Chart, patience: time.Second}
	err := addon.Install(t.Context(), s.target, s.report)
	if err == nil {
		t.Fatal("until() succeeded, want a time-out")
	}
	for _, words := range []string{
		"cert-manager: not within 1s: ", " is not ready\n", "Pod cert-manager/cert-manager-", " on no node: Pending\n",
		"not scheduled: no nodes available to schedule pods", "Event Pod cert-manager-", "FailedScheduling: ",
	} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the error lacks %q:\n%v", words, err)
		}
	}
}
