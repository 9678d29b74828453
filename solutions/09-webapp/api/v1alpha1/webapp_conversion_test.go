// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

// fuzzer draws WebApps of both versions: with fields that are nil, empty and zero, since there something gets lost, and
// with annotations of the name that the conversion uses.
func fuzzer(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(
		// TypeMeta is the API server's business, and managed fields are never converted.
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(*metav1.FieldsV1, randfill.Continue) {},
		func(meta *metav1.ObjectMeta, c randfill.Continue) {
			c.FillNoCustom(meta)
			if c.Bool() {
				metav1.SetMetaDataAnnotation(meta, savedAnnotation, annotation(c, 3))
			}
		},
		func(spec *appsv1beta1.WebAppSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			spec.Description = description(c)
		},
	)
}

func description(c randfill.Continue) string {
	switch c.Intn(4) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("\u00fc", maxDescription) // as long as it may be, in characters and not in bytes
	}
	return c.String(20)
}

// annotation draws an annotation: one that the conversion writes, one that only looks like it, or any text.
func annotation(c randfill.Continue, depth int) string {
	content := map[string]any{}
	if c.Bool() {
		content["description"] = description(c)
	}
	if depth > 0 && c.Bool() {
		content["annotation"] = annotation(c, depth-1)
	}
	switch c.Intn(6) {
	case 0:
		return c.String(20)
	case 1:
		content["description"] = strings.Repeat("x", maxDescription+1)
	case 2:
		content["image"] = "other:v1"
	}
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Whatever a WebApp is, there and back it is the same.
func TestNothingIsLostOnTheWayThereAndBack(t *testing.T) {
	for seed := range int64(1000) {
		thereAndBack(t, seed)
	}
}

// go test -fuzz=FuzzThereAndBack ./api/v1alpha1 looks for longer.
func FuzzThereAndBack(f *testing.F) {
	f.Add(int64(9))
	f.Fuzz(thereAndBack)
}

func thereAndBack(t *testing.T, seed int64) {
	t.Helper()
	random := fuzzer(seed)
	var old, oldAgain WebApp
	var hub, hubAgain appsv1beta1.WebApp

	random.Fill(&old)
	before := old.DeepCopy()
	convert(t, old.ConvertTo(&hub), oldAgain.ConvertFrom(&hub))
	if !equality.Semantic.DeepEqual(old, oldAgain) || !equality.Semantic.DeepEqual(old, *before) {
		t.Fatalf("seed %d: v1alpha1 was %+v\nand came back as %+v", seed, *before, oldAgain)
	}
	if n := len([]rune(hub.Spec.Description)); n > maxDescription {
		t.Fatalf("seed %d: a client of v1alpha1 wrote a description of %d characters", seed, n)
	}

	hub, oldAgain = appsv1beta1.WebApp{}, WebApp{}
	random.Fill(&hub)
	convert(t, oldAgain.ConvertFrom(&hub), oldAgain.ConvertTo(&hubAgain))
	if !equality.Semantic.DeepEqual(hub, hubAgain) {
		t.Fatalf("seed %d: v1beta1 was %+v\nand came back as %+v", seed, hub, hubAgain)
	}
}

// A user's annotation has the name by chance, or on purpose. It does not become a field, and no field overwrites it.
func TestAnAnnotationOfAUserStaysOne(t *testing.T) {
	for _, users := range []string{"", "mine", "{}", `{"description":"x"}`, `{"annotation":"{\"description\":\"x\"}"}`} {
		for _, description := range []string{"", "The shop"} {
			hub := appsv1beta1.WebApp{Spec: appsv1beta1.WebAppSpec{Description: description}}
			hub.Annotations = map[string]string{savedAnnotation: users}
			var old WebApp
			var again appsv1beta1.WebApp
			convert(t, old.ConvertFrom(&hub), old.ConvertTo(&again))
			if again.Spec.Description != description || !maps.Equal(again.Annotations, hub.Annotations) {
				t.Errorf("the description %q with the annotations %q came back as %q with %q",
					description, hub.Annotations, again.Spec.Description, again.Annotations)
			}
		}
	}
}

// An annotation that a client of v1alpha1 writes becomes a field only if v1beta1 would accept its value.
func TestTheAnnotationObeysTheSchema(t *testing.T) {
	for name, test := range map[string]struct {
		annotation, description string
	}{
		"as the conversion writes it": {`{"description":"The shop"}`, "The shop"},
		"as long as it may be":        {`{"description":"` + strings.Repeat("ü", maxDescription) + `"}`, strings.Repeat("ü", maxDescription)},
		"too long":                    {`{"description":"` + strings.Repeat("x", maxDescription+1) + `"}`, ""},
		"another type":                {`{"description":7}`, ""},
		"an unknown field":            {`{"description":"x","port":1}`, ""},
		"no JSON":                     {"The shop", ""},
	} {
		old := WebApp{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{savedAnnotation: test.annotation}}}
		var hub appsv1beta1.WebApp
		convert(t, old.ConvertTo(&hub))
		if hub.Spec.Description != test.description {
			t.Errorf("%s: the description is %q, want %q", name, hub.Spec.Description, test.description)
		}
		if _, stays := hub.Annotations[savedAnnotation]; stays != (test.description == "") {
			t.Errorf("%s: the annotations are %q", name, hub.Annotations)
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
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Annotations: map[string]string{"team": "sales", savedAnnotation: `{"description":"The shop"}`},
		},
		Spec:   WebAppSpec{Image: "shop:v1", NodePortNumber: 30080, Replicas: new(int32(0))},
		Status: WebAppStatus{Replicas: 2, Selector: "app=web"},
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
