// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/scripts/grading/audit"
)

func TestMayNeed(t *testing.T) {
	t.Parallel()
	cows := schema.GroupVersionResource{Group: "my.domain", Version: "v1", Resource: "cows"}
	for _, test := range []struct {
		verb, group, resource string
		want                  bool
	}{
		{"watch", "my.domain", "cows", true},
		{"update", "my.domain", "cows", false},
		{"patch", "my.domain", "cows/status", true},
		{"list", "my.domain", "cows/status", false},
		{"update", "my.domain", "cows/finalizers", true},
		{"get", "another.domain", "cows", false},
		{"list", "", "pods", true},
		{"delete", "", "pods", false},
		{"create", "apps", "deployments", true},
		{"delete", "", "services", false},
		{"get", "", "secrets", false},
	} {
		right := audit.Right{Verb: test.verb, Group: test.group, Resource: test.resource}
		if got := MayNeed(cows, right); got != test.want {
			t.Errorf("MayNeed() of the right to %s %s of %q = %t, want %t", test.verb, test.resource, test.group, got, test.want)
		}
	}
}

// TestNonBlockingReferenceNeedsNoRight has no API server for MissingReferenceRight to ask.
func TestNonBlockingReferenceNeedsNoRight(t *testing.T) {
	t.Parallel()
	child := &corev1.Service{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{Kind: "Cow", Name: "berta"}, {Kind: "Cow", Name: "berta", BlockOwnerDeletion: new(bool)},
	}}}
	missing, err := (&Owners{}).MissingReferenceRight(t.Context(), "operator", types.NamespacedName{Name: "berta"}, child)
	if err != nil || missing != nil {
		t.Errorf("MissingReferenceRight() = %v, %v, want none", missing, err)
	}
}
