// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/scripts/grading/faults"
)

func TestHeldLeases(t *testing.T) {
	t.Parallel()
	wrote := func(verb, resource, namespace, name string, code int) faults.Entry {
		return faults.Entry{
			Service: faults.API, Verb: verb, Resource: resource, Namespace: namespace, Name: name,
			Code: code, Write: verb != "get",
		}
	}
	got := heldLeases([]faults.Entry{
		wrote("get", "leases", "shop", "read", 200),
		wrote("create", "leases", "shop", "refused", 403),
		wrote("create", "leases", "shop", "leader", 201),
		wrote("update", "leases", "shop", "leader", 200),
		wrote("update", "leases", "other", "leader", 0), // it was killed before it got the answer
		wrote("update", "icecreams", "", "sundae", 200),
	})
	want := []types.NamespacedName{{Namespace: "shop", Name: "leader"}, {Namespace: "other", Name: "leader"}}
	if !slices.Equal(got, want) {
		t.Errorf("heldLeases() = %v, want %v", got, want)
	}
}
