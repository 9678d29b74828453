// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	v1 "lva.io/operators/scripts/authoring/examples/lighthouse/api/v1"
)

var _ conversion.Convertible = &Lighthouse{}

func TestConversionRoundTrip(t *testing.T) {
	t.Parallel()
	for name, seconds := range map[string]*int32{"steady": nil, "zero": new(int32(0)), "flashing": new(int32(10))} {
		want := &v1.Lighthouse{
			ObjectMeta: metav1.ObjectMeta{Name: "eddystone", Labels: map[string]string{"rock": "yes"}},
			Spec:       v1.LighthouseSpec{FlashSeconds: seconds}, Status: v1.LighthouseStatus{Lit: true},
		}
		var old Lighthouse
		if err := old.ConvertFrom(want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(seconds, old.Spec.Period); diff != "" {
			t.Errorf("%s: period (-want +got):\n%s", name, diff)
		}
		var got v1.Lighthouse
		if err := old.ConvertTo(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, &got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
