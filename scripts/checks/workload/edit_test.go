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

func TestUnrestored(t *testing.T) {
	t.Parallel()
	service := func(version, app string, port int32) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "berta", ResourceVersion: version},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Port: port}},
			},
		}
	}
	before, edited := service("1", "cow", 80), service("2", "nobody", 81)
	for _, test := range []struct {
		now  *corev1.Service
		want string
	}{
		{edited, "the Service berta has the selector app=nobody"},
		{service("3", "cow", 81), "the Service berta has the port 81, and it had 80"},
		{before, Unseen},
		{service("3", "cow", 80), ""},
	} {
		if got := Unrestored(test.now, edited, &before.Spec); got != test.want {
			t.Errorf("Unrestored() of version %s = %q, want %q", test.now.ResourceVersion, got, test.want)
		}
	}
}
