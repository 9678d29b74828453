// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestSecondOrderOfCertificate checks that a request that no longer matches the key is replaced under the same name,
// which causes a second order. Each order is recorded, and a script that has seen one of them is correct about that
// one.
func TestSecondOrderOfCertificate(t *testing.T) {
	t.Parallel()
	r := &record{objects: map[types.UID]*unstructured.Unstructured{}}
	add := func(uid types.UID, kind, name, ownerKind, owner string) {
		o := object("v1", kind, second, name, nil)
		o.SetUID(uid)
		o.SetOwnerReferences([]metav1.OwnerReference{{Kind: ownerKind, Name: owner}})
		r.objects[uid] = o
	}
	add("request", "CertificateRequest", "sundae-1", "Certificate", "sundae")
	add("again", "CertificateRequest", "sundae-1", "Certificate", "sundae")
	for _, order := range []string{"sundae-1-7", "sundae-1-8"} {
		add(types.UID(order), "Order", order, "CertificateRequest", "sundae-1")
		add(types.UID(order+"-9"), "Challenge", order+"-9", "Order", order)
	}
	add("other", "Order", "scoop-1-7", "CertificateRequest", "scoop-1")
	all := r.placed(second, "sundae")
	if len(all) != 2 || all[0].order.GetName() != "sundae-1-7" || all[1].order.GetName() != "sundae-1-8" {
		t.Fatalf("two orders were placed, and these are known: %v", all)
	}
	v := visit{scene: &scene{record: r}, t: t}
	for _, order := range []string{"sundae-1-7", "sundae-1-8"} {
		f := &finding{namespace: second, certificate: "sundae", output: "order: " + order}
		if right := v.chain(f); right["order"][0] != order || right["challenge"][0] != order+"-9" {
			t.Errorf("the script reports the order %s, but chain returns %v", order, right)
		}
	}
	stranger := &finding{namespace: second, certificate: "sundae", output: "order: scoop-1-7"}
	if right := v.chain(stranger); right["order"][0] != "sundae-1-7" {
		t.Errorf("the script reports the order of another certificate, but chain returns %v", right)
	}
}
