// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/stage"
)

// A webhook does not count as reached if a later request still fails, because its Service leads to the old Pod.
func TestConversionWebhookIsReachedSteadily(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	began := time.Now()
	const lost = steadyTime / 2 // one request after this time fails
	var failed atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if time.Since(began) > lost && failed.CompareAndSwap(0, time.Since(began).Nanoseconds()) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,`+
				`"message":"conversion webhook for apps.lva.io/v1alpha1, Kind=WebApp failed: `+
				`Post \"https://x/convert\": no route to host"}`)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"WebAppList","apiVersion":"apps.lva.io/v1beta1","items":[]}`)
	}))
	t.Cleanup(server.Close)
	definition := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "apps.lva.io", "names": map[string]any{"plural": "webapps"},
		"versions": []any{map[string]any{"name": "v1beta1", "served": true}},
	}}}
	o := &operator{
		Deployment: &Deployment{upgraded: []*unstructured.Unstructured{definition}},
		stage:      &podStage{cluster: &stage.Cluster{Config: &rest.Config{Host: server.URL}}},
	}
	if err := o.awaitConverting(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := time.Duration(failed.Load()); last == 0 || time.Since(began) < last+steadyTime {
		t.Errorf("the webhook failed after %s, but counted as reached after %s", last, time.Since(began))
	}
}
