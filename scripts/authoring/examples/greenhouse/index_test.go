// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

// find is a part of TestOnARealAPIServer.
func find(t *testing.T, config *rest.Config, api client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, plants := range map[string][]string{"one": {"agave"}, "two": {"banana", "agave"}, "three": {"banana"}} {
		greenhouse := newGreenhouse(name, 10, 20)
		greenhouse.Spec.Plants = plants
		if err := api.Create(ctx, greenhouse); err != nil {
			t.Fatal(err)
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: api.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := IndexPlants(ctx, mgr); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal(context.Cause(ctx))
	}
	agave := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "agave"}}
	found, err := WithPlant(ctx, mgr.GetClient(), agave)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b playv1.Greenhouse) int { return cmp.Compare(a.Name, b.Name) })
	if len(found) != 2 || found[0].Name != "one" || found[1].Name != "two" {
		t.Errorf("WithPlant() = %v, want one and two", found)
	}
	if _, err := WithPlant(ctx, api, agave); err == nil {
		t.Error("the API server lists by an unknown field, want an error")
	}
}
