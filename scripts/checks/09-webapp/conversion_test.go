// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

// drawing is the content of a WebApp for the round trip.
type drawing struct {
	image, description  string
	port, replicas      int32
	labels, annotations map[string]string
}

var descriptions = []string{
	"", "x", "two\nlines and a \ttab", `"quotes" and {braces} and \ and %s`,
	"Gruß, Привіт, 你好 🐄", strings.Repeat("long ", 150), " ",
}

// drawing returns the drawing with a number. Each description belongs to one drawing.
func (v visit) drawing(number int, descriptions []string, ports []int32) drawing {
	random := v.town.random
	some := func(kinds ...string) map[string]string {
		drawn := map[string]string{}
		for range random.IntN(3) {
			drawn[fmt.Sprintf("example.com/%s-%d", shops[random.IntN(len(shops))], random.IntN(9))] = kinds[random.IntN(len(kinds))]
		}
		return drawn
	}
	return drawing{
		image: v.town.drawImage(), description: descriptions[number%len(descriptions)], port: ports[random.IntN(len(ports))],
		replicas:    []int32{0, 1, 2, 7}[random.IntN(4)],
		labels:      some("", "a", "b-1"),
		annotations: some("", "{}", "two\nlines", "ü"),
	}
}

func (d drawing) String() string {
	return fmt.Sprintf("a WebApp with image %s, port %d, replicas %d, description %q, labels %v, annotations %v",
		d.image, d.port, d.replicas, d.description, d.labels, d.annotations)
}

// in returns the drawing as a spec of a version.
func (d drawing) in(version schema.GroupVersionResource) map[string]any {
	fields := spec(version, d.image, d.port, d.replicas)
	if version == newer {
		fields["description"] = d.description
	}
	return fields
}

// write returns a function that writes the drawing into an object.
func (d drawing) write(version schema.GroupVersionResource) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		fields := d.in(version)
		if d.description == "" {
			delete(fields, "description")
		}
		object.Object["spec"] = fields
		object.SetLabels(d.labels)
		object.SetAnnotations(d.annotations)
	}
}

// lost returns which drawn metadata an object lacks, or which metadata it has in addition in the version in which it
// was written.
func (d drawing) lost(object *unstructured.Unstructured, exactly bool) string {
	for what, pair := range map[string][2]map[string]string{
		"labels": {d.labels, object.GetLabels()}, "annotations": {d.annotations, object.GetAnnotations()},
	} {
		want, got := pair[0], pair[1]
		for key, value := range want {
			if is, exists := got[key]; !exists || is != value {
				return fmt.Sprintf("in %s its %s are %v, and %v were written", version(object), what, got, want)
			}
		}
		if exactly && len(got) != len(want) {
			return fmt.Sprintf("in %s its %s are %v, and %v were written", version(object), what, got, want)
		}
	}
	return ""
}

// roundTrip writes WebApps in one version, reads and writes them in the other one, and reads them in the first one
// again.
func roundTrip() frameworktypes.Feature {
	return features.New("there and back").
		Assess("nothing is lost", check.Assess(assess(func(v visit) {
			a := v.createNewer("")
			v.works(a)
			ports := []int32{a.port, v.town.ports.Draw()}
			const expected = "what is written in one version is the same after it was read and written in the other one"
			all := slices.Clone(descriptions)
			if most := v.longestDescription(); most > 0 { // in characters, each of which takes up to four bytes
				all = append(all, strings.Repeat("🐄", most), strings.Repeat("ü", most-1)+"x", strings.Repeat("x", most))
			}
			v.town.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for number := range draws {
				d := v.drawing(number, all, ports)
				v.edit(newer, a.NamespacedName, d.write(newer))
				older := v.read(webapps, a.NamespacedName)
				if wrong := either(differs(older, d.in(webapps)), d.lost(older, false)); wrong != "" {
					v.Fail(v.t, expected, fmt.Sprintf("%s; it was %s", wrong, d))
				}
				// A client of the older version changes metadata for which no version has its own field.
				v.edit(webapps, a.NamespacedName, func(object *unstructured.Unstructured) {
					d.labels = maps.Clone(d.labels)
					d.labels["visited"] = "yes"
					labels := object.GetLabels()
					if labels == nil {
						labels = map[string]string{}
					}
					labels["visited"] = "yes"
					object.SetLabels(labels)
				})
				back := v.read(newer, a.NamespacedName)
				if wrong := either(differs(back, d.in(newer)), d.lost(back, true)); wrong != "" {
					v.Fail(v.t, expected, fmt.Sprintf("%s; it was %s", wrong, d))
				}

				d = v.drawing(number, all, ports)
				d.description = ""
				v.edit(webapps, a.NamespacedName, d.write(webapps))
				v.edit(newer, a.NamespacedName, func(*unstructured.Unstructured) {})
				again := v.read(webapps, a.NamespacedName)
				if wrong := either(differs(again, d.in(webapps)), d.lost(again, true)); wrong != "" {
					v.Fail(v.t, expected, fmt.Sprintf("%s; it was %s", wrong, d))
				}
			}
		}))).
		Assess("nor an annotation of a user", check.Assess(assess(usersAnnotations))).
		Assess("nor is the status", check.Assess(assess(func(v visit) {
			a := v.createNewer("")
			v.eventually(statusPatience, "the status of a WebApp has its conditions, and is the same in both versions",
				func() string {
					olders, newers := v.read(webapps, a.NamespacedName), v.read(newer, a.NamespacedName)
					if olders.GetResourceVersion() != newers.GetResourceVersion() {
						return "it is being written"
					}
					older, newer := olders.Object["status"], newers.Object["status"]
					conditions, _, _ := unstructured.NestedSlice(newers.Object, "status", "conditions")
					if len(conditions) < 2 || !reflect.DeepEqual(older, newer) {
						return fmt.Sprintf("in v1beta1 it is %v, and in v1alpha1 %v", newer, older)
					}
					return ""
				})
		}))).Feature()
}

// usersAnnotations checks the annotations with which a conversion carries fields through v1alpha1, which lacks them. A
// user may have written an annotation with that name, in either version. An operator may also refuse it.
func usersAnnotations(v visit) {
	const expected = "what is written in v1beta1 is the same after it was read and written in v1alpha1, " +
		"also an annotation that has the name of one of the conversion"
	const description, another, mine = "The shop at the corner", "The shop in the park", "a note of a user"
	a := v.createNewer(description)
	carriers := v.read(webapps, a.NamespacedName).GetAnnotations() // the WebApp had none before
	isRefused := func(err error) bool {
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
	}
	for _, name := range slices.Sorted(maps.Keys(carriers)) {
		for _, users := range []string{carriers[name], mine} {
			for _, value := range []string{"", another} {
				what := fmt.Sprintf("a WebApp with the description %q and an annotation of a user, %s: %q", value, name, users)
				_, err := v.tryEdit(newer, a.NamespacedName, func(object *unstructured.Unstructured) {
					object.SetAnnotations(map[string]string{name: users})
					object.Object["spec"].(map[string]any)["description"] = value
				})
				if isRefused(err) {
					continue
				}
				v.OK(v.t, "writing "+what, err)
				v.edit(webapps, a.NamespacedName, func(object *unstructured.Unstructured) {
					object.SetLabels(map[string]string{"visited": fmt.Sprint(object.GetResourceVersion())})
				})
				back := v.read(newer, a.NamespacedName)
				written := drawing{annotations: map[string]string{name: users}}
				if wrong := either(differs(back, map[string]any{"description": value}), written.lost(back, false)); wrong != "" {
					v.Fail(v.t, expected, fmt.Sprintf("%s; it was %s", wrong, what))
				}
			}
		}
		most := v.longestDescription()
		long := strings.ReplaceAll(carriers[name], description, strings.Repeat("x", most+1))
		if most == 0 || long == carriers[name] {
			continue
		}
		_, err := v.tryEdit(webapps, a.NamespacedName, func(object *unstructured.Unstructured) {
			object.SetAnnotations(map[string]string{name: long})
		})
		if isRefused(err) {
			continue
		}
		v.OK(v.t, "writing an annotation in v1alpha1", err)
		back, _, _ := unstructured.NestedString(v.read(newer, a.NamespacedName).Object, "spec", "description")
		if is := utf8.RuneCountInString(back); is > most {
			v.Fail(v.t, fmt.Sprintf("a description has at most %d characters, as the CRD says, "+
				"whatever a client of v1alpha1 writes into the annotation %s", most, name), fmt.Sprintf("it has %d", is))
		}
	}
}

// longestDescription returns the maxLength of the description in the CRD. 0: it has none.
func (v visit) longestDescription() int {
	v.t.Helper()
	definition, err := v.town.Dynamic.Resource(definitions).Get(v.ctx, definitionName, metav1.GetOptions{})
	v.OK(v.t, "reading the CRD", err)
	all, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, one := range all {
		if one, _ := one.(map[string]any); one["name"] == newer.Version {
			most, _, _ := unstructured.NestedInt64(one,
				"schema", "openAPIV3Schema", "properties", "spec", "properties", "description", "maxLength")
			return int(most)
		}
	}
	return 0
}

func either(one, other string) string {
	if one != "" {
		return one
	}
	return other
}

// onlyNewer checks the field that only the newer version has. Clients of the older version do not know it.
func onlyNewer() frameworktypes.Feature {
	return features.New("the description").
		Assess("stays when a client of v1alpha1 writes", check.Assess(assess(func(v visit) {
			description := fmt.Sprintf("The %s of house %d", shops[v.town.random.IntN(len(shops))], v.town.random.IntN(1000))
			a := v.createNewer(description)
			v.works(a)
			stays := func(after string) {
				v.t.Helper()
				if wrong := differs(v.read(newer, a.NamespacedName), map[string]any{"description": description}); wrong != "" {
					v.Fail(v.t, fmt.Sprintf("%s still has its description after %s", a.Name, after), wrong)
				}
			}
			stays("the operator has written its status")
			v.setImage(a, v.town.drawImage())
			stays("a patch of its image in v1alpha1")
			scales := v.town.Dynamic.Resource(webapps).Namespace(a.Namespace)
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				object, err := scales.Get(v.ctx, a.Name, metav1.GetOptions{}, "scale")
				if err != nil {
					return err
				}
				var scale autoscalingv1.Scale
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &scale); err != nil {
					return err
				}
				if err := unstructured.SetNestedField(object.Object, int64(scale.Spec.Replicas+1), "spec", "replicas"); err != nil {
					return err
				}
				_, err = scales.Update(v.ctx, object, metav1.UpdateOptions{}, "scale")
				return err
			})
			v.OK(v.t, "scaling in v1alpha1", err)
			stays("`kubectl scale` in v1alpha1")
			v.works(a)
		}))).
		Assess("and disappears when a client of v1beta1 removes it", check.Assess(assess(func(v visit) {
			a := v.createNewer("to be taken away")
			visit := func(times string) {
				v.t.Helper()
				v.edit(webapps, a.NamespacedName, func(object *unstructured.Unstructured) {
					object.SetLabels(map[string]string{"visited": times})
				})
			}
			visit("once")
			v.edit(newer, a.NamespacedName, func(object *unstructured.Unstructured) {
				unstructured.RemoveNestedField(object.Object, "spec", "description")
			})
			visit("twice")
			if wrong := differs(v.read(newer, a.NamespacedName), map[string]any{"description": ""}); wrong != "" {
				v.Fail(v.t, "a description that was taken away in v1beta1 does not come back", wrong)
			}
		}))).Feature()
}
