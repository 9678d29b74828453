// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// set writes a value into a ConfigMap as an operator does.
func set(ctx context.Context, client *kubernetes.Clientset, namespace, name, value string) error {
	configMap, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	configMap.Data = map[string]string{"value": value}
	_, err = client.CoreV1().ConfigMaps(namespace).Update(ctx, configMap, metav1.UpdateOptions{})
	return err
}

func TestRequestsToTheAPIServerPassAndAreLogged(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	client, ctx := b.client(t), t.Context()
	maps := client.CoreV1().ConfigMaps(b.namespace)
	b.arm(t)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Data = map[string]string{"value": strings.Repeat("x", 300<<10)} // longer than any buffer on its way
	if made, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Patch(ctx, "a", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("Update() of an old version: error = %v, want a conflict", err)
	}
	got, err := maps.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || len(got.Data["value"]) != 300<<10 || got.Labels["x"] != "y" {
		t.Errorf("Get() returned %d bytes with the labels %v: error = %v", len(got.Data["value"]), got.Labels, err)
	}
	if list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "x=y", Limit: 1}); err != nil ||
		len(list.Items) != 1 {
		t.Errorf("List() returned %d items, want 1: error = %v", len(list.Items), err)
	}
	absent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	_, err = client.AppsV1().Deployments(b.namespace).UpdateStatus(ctx, absent, metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		t.Errorf("UpdateStatus() of an absent Deployment: error = %v", err)
	}
	if err := maps.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "x=z"}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"create configmaps a → 201 Created (write 1)",
		"update configmaps a → 200 OK (write 2)",
		"patch configmaps a → 200 OK (write 3)",
		"update configmaps a → 409 Conflict (write 4)",
		"get configmaps a → 200 OK (read 1)",
		"list configmaps → 200 OK (read 2)",
		"update deployments/status none → ",
		"delete configmaps a → 200 OK (write 6)",
		"deletecollection configmaps → 200 OK (write 7)",
	}
	lines := b.lines()
	if len(lines) == len(want) && strings.HasPrefix(lines[6], want[6]) && strings.HasSuffix(lines[6], "(write 5)") {
		want[6] = lines[6] // the API server chooses one of the two errors
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	for _, entry := range b.Log() {
		if entry.Service != API || entry.Namespace != b.namespace {
			t.Errorf("unexpected log entry: %+v", entry)
		}
	}
}

func TestAPIProxySpeaksHTTP2AndAuthenticatesByToken(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	client, err := rest.HTTPClientFor(b.operator)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Get(b.operator.Host + "/version")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.ProtoMajor != 2 || answer.StatusCode != http.StatusOK {
		t.Errorf("got %s, %s, want HTTP/2 and 200 OK", answer.Proto, answer.Status)
	}
	review, err := b.client(t).AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if want := "system:serviceaccount:" + b.namespace + ":operator"; err != nil ||
		review.Status.UserInfo.Username != want {
		t.Errorf("got user name %q, want %q: error = %v", review.Status.UserInfo.Username, want, err)
	}
	for name, token := range map[string]string{"no token": "", "an unknown token": "made-up"} {
		config := rest.CopyConfig(b.operator)
		config.BearerToken = token
		stranger, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		// The injector must not use the administrator's certificate for these clients.
		_, err = stranger.CoreV1().ConfigMaps(b.namespace).List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: error = %v, want 401", name, err)
		}
	}
	config := rest.CopyConfig(b.operator)
	config.CAData = cluster.Config().CAData
	foreign, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.Discovery().ServerVersion(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("the cluster's authority verifies the proxy's certificate: error = %v", err)
	}
}

func TestUncountedRequestsGetNoFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	client, ctx := b.client(t), t.Context()
	b.arm(t, Fault{Kind: ServerError, Class: Write}, Fault{Kind: ServerError, Class: Read})
	for name, ask := range map[string]func() error{
		"discovery": func() error { _, _, err := client.Discovery().ServerGroupsAndResources(); return err },
		"OpenAPI":   func() error { _, err := client.Discovery().OpenAPIV3().Paths(); return err },
		"health":    func() error { return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() },
		"a lease": func() error {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}}
			if _, err := client.CoordinationV1().Leases(b.namespace).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
				return err
			}
			_, err := client.CoordinationV1().Leases(b.namespace).Get(ctx, "leader", metav1.GetOptions{})
			return err
		},
		"an event": func() error {
			event := &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Name: "it-happened"},
				InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Name: "x", Namespace: b.namespace},
			}
			_, err := client.CoreV1().Events(b.namespace).Create(ctx, event, metav1.CreateOptions{})
			return err
		},
		"an access review": func() error {
			_, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/", Verb: "get"},
				},
			}, metav1.CreateOptions{})
			return err
		},
		"a watch": func() error {
			watching, err := client.CoreV1().ConfigMaps(b.namespace).Watch(ctx, metav1.ListOptions{})
			if err == nil {
				watching.Stop()
			}
			return err
		},
	} {
		if err := ask(); err != nil {
			t.Errorf("%s got a fault: %v", name, err)
		}
	}
	log := b.Log()
	if len(log) < 8 {
		t.Errorf("the log is incomplete: %v", log)
	}
	for _, entry := range log {
		if entry.Number != 0 || entry.Fault != "" {
			t.Errorf("%s was counted or got a fault", entry)
		}
	}
	if _, err := client.CoreV1().ConfigMaps(b.namespace).List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("a counted read got no fault")
	}
	if got := b.Log()[len(log)]; got.Number != 1 {
		t.Errorf("got entry %s, want read 1", got)
	}
}

func TestWriteWithALostAnswerTakesEffect(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.create(t, "x")
	b.arm(t, Fault{Kind: LostAnswer, Class: Write, At: 1})
	err := set(t.Context(), b.client(t), b.namespace, "x", "done")
	var answer apierrors.APIStatus
	if err == nil || errors.As(err, &answer) {
		t.Errorf("set() error = %v", err)
	}
	if got := b.value(t, "x"); got != "done" {
		t.Errorf("got value %q", got)
	}
	if got := b.Log()[1]; got.Code != http.StatusOK || got.Injected || got.Fault != LostAnswer {
		t.Errorf("unexpected log entry: %+v", got)
	}
}

func TestUnansweredWriteHasNoEffect(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.create(t, "x")
	b.arm(t, Fault{Kind: NoAnswer, Class: Write, At: 1})
	client := b.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := set(ctx, client, b.namespace, "x", "done"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("set() error = %v", err)
	}
	if got := b.value(t, "x"); got != "" {
		t.Errorf("got value %q", got)
	}
	if err := set(t.Context(), client, b.namespace, "x", "later"); err != nil {
		t.Error(err)
	}
}

func TestStoppedAPIServerIsADroppedConnection(t *testing.T) {
	t.Parallel()
	injector := New(nil)
	defer injector.Close()
	host, ca, err := injector.ProxyAPI(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	var answer apierrors.APIStatus
	if err == nil || errors.As(err, &answer) {
		t.Errorf("List() without an API server: error = %v, want a dropped connection", err)
	}
	for _, host := range []string{"", "127.0.0.1:6443", "http://127.0.0.1:6443"} {
		if _, _, err := injector.ProxyAPI(&rest.Config{Host: host}); err == nil ||
			!strings.Contains(err.Error(), "must begin with https://") {
			t.Errorf("ProxyAPI() with the address %q: error = %v", host, err)
		}
	}
}

func TestNameOfACreatedObjectIsReadFromItsBody(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ mediaType, body, want string }{
		{runtime.ContentTypeJSON, `{"metadata":{"name":"sundae"}}`, "sundae"},
		{"application/json; charset=utf-8", `{"metadata":{"name":"sundae"}}`, "sundae"},
		{runtime.ContentTypeJSON, `{"metadata":{"generateName":"sundae-"}}`, ""},
		{runtime.ContentTypeJSON, `{`, ""},
		{runtime.ContentTypeJSON, strings.Repeat(" ", bodyLimit+10), ""},
		{runtime.ContentTypeProtobuf, `{"metadata":{"name":"sundae"}}`, ""},
		{"", "", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"https://x/apis/demo.lva.io/v1/icecreams", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", test.mediaType)
		asked := parseAPI(r)
		if asked.entry.Name != test.want || asked.entry.Verb != "create" || asked.entry.Resource != "icecreams" ||
			asked.group != "demo.lva.io" {
			t.Errorf("parseAPI() of the body %.40q = %+v", test.body, asked)
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != test.body {
			t.Errorf("a body of %d bytes has %d bytes after parseAPI(): error = %v", len(test.body), len(body), err)
		}
	}
}
