// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certmanager

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/deployed"
)

// leastPeriod is the minimum time for which a serving certificate must be used. cert-manager issues none that is valid
// for less than an hour.
const leastPeriod = time.Hour

// renewedSeldom fails a submission whose serving certificate is renewed after less than leastPeriod. Such values are
// for experiments on the playground. cert-manager itself reports the renewal time, which it derives from duration and
// renewBefore, or their defaults.
func (o *operator) renewedSeldom(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	var certificate unstructured.Unstructured
	var period time.Duration
	err := await.Within(ctx, issueLimit, deployed.Poll, "cert-manager to say when the certificate is renewed",
		func(ctx context.Context) (string, error) {
			all, err := o.Dynamic.Resource(certificates).Namespace(o.deployment.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return "", err
			}
			for _, certificate = range all.Items {
				if secret, _, _ := unstructured.NestedString(certificate.Object, "spec", "secretName"); secret != o.secret {
					continue
				}
				var times [2]time.Time
				for i, field := range []string{"notBefore", "renewalTime"} {
					text, _, _ := unstructured.NestedString(certificate.Object, "status", field)
					if times[i], err = time.Parse(time.RFC3339, text); err != nil {
						return fmt.Sprintf("the status of Certificate %s has no %s", certificate.GetName(), field), nil //nolint:nilerr // it is waited for
					}
				}
				period = times[1].Sub(times[0])
				return "", nil
			}
			period = leastPeriod // There is none, which the check of the renewal reports.
			return "", nil
		})
	c.OK(t, "reading the Certificate", err)
	if period < leastPeriod {
		spec, _, _ := unstructured.NestedMap(certificate.Object, "spec")
		c.Fail(t, fmt.Sprintf("the serving certificate is renewed %s after it was issued, or later: "+
			"in between, cert-manager and the CA have no work with it", leastPeriod),
			fmt.Sprintf("Certificate %s is renewed after %s", certificate.GetName(), period),
			fmt.Sprintf("duration: %v, renewBefore: %v. Short times are for the playground; the task asks for 2160h and 720h",
				spec["duration"], spec["renewBefore"]))
	}
}
