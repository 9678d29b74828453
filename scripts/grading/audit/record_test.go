// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/audit"
)

// The Recorder's events must equal those of the API server's own log.
func TestRecordsMatchAuditLog(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster, err := embedded.Start(t.Context(), repo.ControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	const user = "system:serviceaccount:default:default"
	makeKind(t, cluster.Config())
	path := filepath.Join(t.TempDir(), "recorded.log")
	recorder, err := audit.NewRecorder(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := recorder.Close(); err != nil {
			t.Error(err)
		}
	})
	token, err := kubernetes.NewForConfigOrDie(cluster.Config()).CoreV1().ServiceAccounts("default").
		CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(cluster.Config())
	config.BearerToken = token.Status.Token
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return recorder.Transport(user, []string{"demo.lva.io"}, next)
	})
	allow(t, cluster.Config(), user)
	ask(t, config)

	logged := events(t, cluster.AuditLog, user)
	recorded := events(t, path, user)
	if len(logged) == 0 || len(recorded) != len(logged) {
		t.Fatalf("recorded %d requests, but %d are logged\n%v\n%v", len(recorded), len(logged), recorded, logged)
	}
	for i := range logged {
		a, b := plain(t, recorded[i]), plain(t, logged[i])
		for field := range b {
			if !reflect.DeepEqual(a[field], b[field]) {
				t.Errorf("%s: %s is recorded as\n%.300v\nbut logged as\n%.300v", recorded[i], field, a[field], b[field])
			}
		}
	}
}

var sundaes = schema.GroupVersionResource{Group: "demo.lva.io", Version: "v1", Resource: "sundaes"}

func makeKind(t *testing.T, config *rest.Config) {
	t.Helper()
	definitions := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	_, err := definitions.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "sundaes.demo.lva.io"},
		"spec": map[string]any{
			"group": "demo.lva.io", "scope": "Cluster", "names": map[string]any{"kind": "Sundae", "plural": "sundaes"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.After(20 * time.Second)
	for {
		_, err := dynamic.NewForConfigOrDie(config).Resource(sundaes).List(t.Context(), metav1.ListOptions{})
		if err == nil {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatal(err)
		}
	}
}

// allow gives the user permissions on sundaes, and nothing else.
func allow(t *testing.T, config *rest.Config, user string) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(config)
	group := "rbac.authorization.k8s.io"
	for resource, object := range map[string]map[string]any{
		"clusterroles": {"kind": "ClusterRole", "rules": []any{map[string]any{
			"apiGroups": []any{"demo.lva.io"}, "resources": []any{"*"}, "verbs": []any{"*"},
		}}},
		"clusterrolebindings": {
			"kind": "ClusterRoleBinding", "roleRef": map[string]any{"apiGroup": group, "kind": "ClusterRole", "name": "sundaes"},
			"subjects": []any{map[string]any{"apiGroup": group, "kind": "User", "name": user}},
		},
	} {
		object["apiVersion"], object["metadata"] = group+"/v1", map[string]any{"name": "sundaes"}
		_, err := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).
			Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// ask sends a request of each kind, one after the other.
func ask(t *testing.T, config *rest.Config) {
	t.Helper()
	ctx := t.Context()
	client := dynamic.NewForConfigOrDie(config).Resource(sundaes)
	sundae := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.lva.io/v1", "kind": "Sundae", "metadata": map[string]any{"generateName": "big-"},
		"spec": map[string]any{"note": strings.Repeat("cream ", 40000)}, // large enough to be compressed in transit
	}}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	made, err := client.Create(ctx, sundae, metav1.CreateOptions{})
	ok(err)
	old := made.DeepCopy()
	made.Object["status"] = map[string]any{"soldOut": true}
	_, err = client.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	ok(err)
	if _, err := client.Update(ctx, old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("Update() of an old version: %v", err)
	}
	_, err = client.Patch(ctx, made.GetName(), types.MergePatchType,
		[]byte(`{"spec":{"note":"short"}}`), metav1.PatchOptions{})
	ok(err)
	_, err = client.List(ctx, metav1.ListOptions{})
	ok(err)
	if _, err := client.Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("Get() of a missing object: %v", err)
	}
	watching, cancel := context.WithCancel(ctx)
	changes, err := client.Watch(watching, metav1.ListOptions{})
	ok(err)
	<-changes.ResultChan()
	changes.Stop()
	cancel()
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		config := rest.CopyConfig(config)
		config.ContentType, config.AcceptContentTypes = contentType, contentType
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").
			Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "none"}}, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			t.Fatalf("a forbidden request: %v", err)
		}
	}
	ok(client.Delete(ctx, made.GetName(), metav1.DeleteOptions{}))
}

// events reads a log up to its end.
func events(t *testing.T, path, user string) []audit.Event {
	t.Helper()
	log, err := audit.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	// The event for the end of a watch is written after the watch was stopped.
	if err := log.Quiet(t.Context(), time.Second, log.By(user)); err != nil {
		t.Fatal(err)
	}
	return log.Since(0, func(e audit.Event) bool { return e.User == user && !audit.Watching(e) })
}

// plain returns the fields that must be equal, with bodies as values.
func plain(t *testing.T, e audit.Event) map[string]any {
	t.Helper()
	body := func(content json.RawMessage) any {
		var value any
		if len(content) > 0 {
			if err := json.Unmarshal(content, &value); err != nil {
				t.Fatal(err)
			}
		}
		if object, ok := value.(map[string]any); ok {
			if metadata, ok := object["metadata"].(map[string]any); ok {
				delete(metadata, "managedFields") // the audit policy leaves them out
			}
			if object["kind"] == "DeleteOptions" {
				delete(object, "apiVersion") // the API server logs its own name for it
			}
		}
		return value
	}
	return map[string]any{
		"verb": e.Verb, "group": e.Group, "resource": e.Resource,
		"subresource": e.Subresource, "name": e.Name, "namespace": e.Namespace,
		"code": e.Code, "message": e.Message, "request": body(e.Request), "response": body(e.Response),
	}
}

func TestUnrecordedAnswerIsNotSent(t *testing.T) {
	t.Parallel()
	recorder, err := audit.NewRecorder(filepath.Join(t.TempDir(), "recorded.log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	for _, path := range []string{"/api/v1/pods/a", "/api/v1/pods?watch=true"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := recorder.Transport("user", nil, http.DefaultTransport).RoundTrip(request)
		if answer != nil {
			answer.Body.Close()
		}
		if err == nil || answer != nil {
			t.Errorf("%s: answer is %v, with error %v", path, answer, err)
		}
	}
}

// A copy is written late, so a query waits for everything that was logged before it.
func TestQueryWaitsForDelayedLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	log, err := audit.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	writeLines := func(lines ...string) {
		for _, line := range lines {
			if _, err := file.WriteString(line + "\n"); err != nil {
				t.Error(err)
			}
		}
	}
	log.SetDelayed(func(_ context.Context, mark string) error {
		time.AfterFunc(200*time.Millisecond, func() {
			writeLines(`{"verb":"update","user":{"username":"operator"},"objectRef":{"resource":"icecreams","name":"sundae"}}`,
				`{"verb":"get","user":{"username":"admin"},"requestURI":"`+mark+
					`","requestReceivedTimestamp":"2026-01-02T15:04:05.000000Z"}`)
		})
		return nil
	})
	if got := log.Since(0, log.By("operator")); len(got) != 1 || got[0].Name != "sundae" {
		t.Errorf("Since() = %v", got)
	}
	log.SetDelayed(func(context.Context, string) error { return errors.New("no server answers") })
	log.Now()
	if err := log.Err(); err == nil || !strings.Contains(err.Error(), "no server answers") {
		t.Errorf("Err() = %v", err)
	}
}
