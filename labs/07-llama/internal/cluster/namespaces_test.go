// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

func TestOnlyANamespaceThatStaysTakesNewObjects(t *testing.T) {
	t.Parallel()
	namespace := func(phase corev1.NamespacePhase) any {
		return &corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "meadow"}, Status: corev1.NamespaceStatus{Phase: phase},
		}
	}
	failure := func(code int32, reason metav1.StatusReason) any {
		return &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Code: code, Reason: reason,
		}
	}
	isTerminating := func(err error) bool {
		return apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	}
	for name, test := range map[string]struct {
		code   int
		answer any
		is     func(error) bool
	}{
		"active":        {200, namespace(corev1.NamespaceActive), func(err error) bool { return err == nil }},
		"being deleted": {200, namespace(corev1.NamespaceTerminating), isTerminating},
		"missing":       {404, failure(404, metav1.StatusReasonNotFound), apierrors.IsNotFound},
		"not readable":  {403, failure(403, metav1.StatusReasonForbidden), apierrors.IsInternalError},
	} {
		var asked string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.Path
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(test.code)
			_ = json.NewEncoder(w).Encode(test.answer)
		}))
		core, err := Client(&rest.Config{Host: server.URL}, corev1.SchemeGroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		llamas := schema.GroupResource{Group: "farm.example.com", Resource: "llamas"}
		if err := NewNamespaces(core).AllowCreate(t.Context(), llamas, "meadow", "luna"); !test.is(err) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if want := "/api/v1/namespaces/meadow"; asked != want {
			t.Errorf("%s: asked is %s, want %s", name, asked, want)
		}
		server.Close()
	}
}
