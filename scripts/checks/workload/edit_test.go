// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNewer checks that versions are ordered as numbers, not as text.
func TestNewer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		version, than string
		want          bool
	}{
		{"10", "9", true},
		{"9", "10", false},
		{"10", "10", false},
		{"", "10", false}, // the watch does not know the object
	} {
		object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: test.version}}
		than := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: test.than}}
		if got := Newer(object, than); got != test.want {
			t.Errorf("Newer(%q, %q) = %t", test.version, test.than, got)
		}
	}
}
