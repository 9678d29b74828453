// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package existing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// scoops returns a kind that the test below creates twice, each time with another field.
func scoops(field string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "scoops.baseline.lva.io"},
		"spec": map[string]any{
			"group": "baseline.lva.io", "scope": "Cluster",
			"names": map[string]any{"kind": "Scoop", "listKind": "ScoopList", "plural": "scoops", "singular": "scoop"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{field: map[string]any{"type": "string", "enum": []any{"large"}}},
				}},
			}},
		},
	}}
}

func TestBaselineRestoresCluster(t *testing.T) {
	cluster := opened(t)
	baseline, err := NewBaseline(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	others, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	for round, field := range []string{"size", "weight"} {
		t.Run(field, func(t *testing.T) {
			if _, err := others.Resource(definitionsResource).Create(t.Context(), scoops(field),
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			scoop := others.Resource(schema.GroupVersionResource{Group: "baseline.lva.io", Version: "v1", Resource: "scoops"})
			held := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "baseline.lva.io/v1", "kind": "Scoop", field: "large",
				"metadata": map[string]any{"name": "held", "finalizers": []any{"baseline.lva.io/nobody"}},
			}}
			if err := poll(t.Context(), "scoops to be served", func() (bool, error) {
				created, err := scoop.Create(t.Context(), held, metav1.CreateOptions{})
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				if err == nil && created.Object[field] != "large" {
					t.Errorf("the API server dropped the field of this round: %v", created.Object)
				}
				return true, err
			}); err != nil {
				t.Fatal(err)
			}
			for _, create := range []func() error{
				func() error {
					_, err := client.CoreV1().Namespaces().Create(t.Context(),
						&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "parlour"}}, metav1.CreateOptions{})
					return err
				},
				func() error {
					_, err := client.CoreV1().ConfigMaps("parlour").Create(t.Context(),
						&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "menu"}}, metav1.CreateOptions{})
					return err
				},
				func() error {
					_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
						&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "menu"}}, metav1.CreateOptions{})
					return err
				},
			} {
				if err := create(); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			if err := baseline.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("round %d: restored after %s", round, time.Since(began))
			again, err := NewBaseline(t.Context(), cluster)
			if err != nil {
				t.Fatal(err)
			}
			if !maps.EqualFunc(again.objects, baseline.objects, object.same) {
				t.Errorf("the cluster has %d objects, want %d", len(again.objects), len(baseline.objects))
			}
		})
	}
}

func TestIrreversibleChangeIsReported(t *testing.T) {
	cluster := opened(t)
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	menu := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "baseline"}}
	menus := client.CoreV1().ConfigMaps("default")
	t.Cleanup(func() {
		if err := menus.Delete(context.WithoutCancel(t.Context()), menu.Name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		name   string
		change func() error
	}{
		{"changed", func() error {
			_, err := menus.Patch(t.Context(), menu.Name, "application/merge-patch+json",
				[]byte(`{"data":{"scoop":"large"}}`), metav1.PatchOptions{})
			return err
		}},
		{"gone", func() error { return menus.Delete(t.Context(), menu.Name, metav1.DeleteOptions{}) }},
		{"another of the same name", func() error {
			if err := menus.Delete(t.Context(), menu.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			_, err := menus.Create(t.Context(), menu, metav1.CreateOptions{})
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := menus.Create(t.Context(), menu, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			baseline, err := NewBaseline(t.Context(), cluster)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.change(); err != nil {
				t.Fatal(err)
			}
			if err := baseline.Restore(t.Context()); !errors.Is(err, ErrChanged) {
				t.Errorf("error = %v", err)
			}
			want(t, baseline.Restore(t.Context()), fmt.Sprint("default/", menu.Name))
		})
	}
}
