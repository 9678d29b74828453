// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

// Whatever a WebApp is, there and back it is the same: with fields that are nil, empty and zero, since there something gets lost.
func TestNothingIsLostOnTheWayThereAndBack(t *testing.T) {
	// TypeMeta is the API server's business, and managed fields are never converted.
	random := randfill.NewWithSeed(9).NilChance(0.3).NumElements(0, 3).Funcs(
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(*metav1.FieldsV1, randfill.Continue) {},
	)
	for range 1000 {
		var old, oldAgain WebApp
		var hub, hubAgain appsv1beta1.WebApp

		random.Fill(&old)
		convert(t, old.ConvertTo(&hub), oldAgain.ConvertFrom(&hub))
		if !equality.Semantic.DeepEqual(old, oldAgain) {
			t.Fatalf("v1alpha1 was %+v\nand came back as %+v", old, oldAgain)
		}

		hub, oldAgain = appsv1beta1.WebApp{}, WebApp{}
		random.Fill(&hub)
		convert(t, oldAgain.ConvertFrom(&hub), oldAgain.ConvertTo(&hubAgain))
		if !equality.Semantic.DeepEqual(hub, hubAgain) {
			t.Fatalf("v1beta1 was %+v\nand came back as %+v", hub, hubAgain)
		}
	}
}

// That there and back is the same would also be true if nothing were converted at all.
func TestEachFieldIsFoundInTheOtherVersion(t *testing.T) {
	hub := appsv1beta1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"team": "sales"}},
		Spec:       appsv1beta1.WebAppSpec{Image: "shop:v1", Port: 30080, Replicas: new(int32(0)), Description: "The shop"},
		Status:     appsv1beta1.WebAppStatus{Replicas: 2, Selector: "app=web"},
	}
	var old WebApp
	convert(t, old.ConvertFrom(&hub))
	want := WebApp{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"team": "sales", descriptionAnnotation: "The shop"}},
		Spec:       WebAppSpec{Image: "shop:v1", NodePortNumber: 30080, Replicas: new(int32(0))},
		Status:     WebAppStatus{Replicas: 2, Selector: "app=web"},
	}
	if !equality.Semantic.DeepEqual(old, want) {
		t.Errorf("it is %+v, want %+v", old, want)
	}
	if len(hub.Annotations) != 1 {
		t.Errorf("what was converted has changed: %v", hub.Annotations)
	}
}

func convert(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
