// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

// The injector's answer is compared with the API server's own.
func TestConflictMatchesTheAPIServers(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	client, ctx := b.client(t), t.Context()
	deployments := client.AppsV1().Deployments(b.namespace)
	labels := map[string]string{"app": "x"}
	old, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old.ResourceVersion = "1"
	status := func() metav1.Status {
		t.Helper()
		_, err := deployments.Update(ctx, old, metav1.UpdateOptions{})
		var answer apierrors.APIStatus
		if !errors.As(err, &answer) {
			t.Fatal(err)
		}
		return answer.Status()
	}
	want := status()
	b.arm(t, Fault{Kind: Conflict, Class: Write})
	got := status()
	if log := b.Log(); log[len(log)-1].Fault != Conflict {
		t.Fatalf("no conflict was injected: %s", log[len(log)-1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the conflict (-want +got):\n%s", diff)
	}
	if want := `Operation cannot be fulfilled on deployments.apps "x": the object has been modified; ` +
		"please apply your changes to the latest version and try again"; got.Message != want {
		t.Errorf("got message %q", got.Message)
	}
	// A patch and a deletion can get a conflict, a creation cannot.
	if _, err := deployments.Patch(ctx, "x", types.MergePatchType,
		[]byte("{}"), metav1.PatchOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("Patch() error = %v, want a conflict", err)
	}
	if err := deployments.Delete(ctx, "x", metav1.DeleteOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("Delete() error = %v, want a conflict", err)
	}
	_, err = client.CoreV1().ConfigMaps(b.namespace).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "y"}}, metav1.CreateOptions{})
	if !apierrors.IsInternalError(err) {
		t.Errorf("Create() error = %v, want an internal error", err)
	}
}

func TestRefusalsOfTheAPI(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.create(t, "x")
	// client-go itself waits and retries after a 429. This client does not.
	client, err := rest.HTTPClientFor(b.operator)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[Kind]metav1.Status{
		TooManyRequests: {
			Code: 429, Reason: metav1.StatusReasonTooManyRequests,
			Message: "Too many requests, please try again later.",
		},
		ServerError: {
			Code: 500, Reason: metav1.StatusReasonInternalError,
			Message: "Internal error occurred: an injected fault",
		},
		Conflict: {
			Code: 500, Reason: metav1.StatusReasonInternalError,
			Message: "Internal error occurred: an injected fault",
		},
		Unavailable: {
			Code: 503, Reason: metav1.StatusReasonServiceUnavailable,
			Message: "the server is currently unable to handle the request",
		},
		Forbidden: {
			Code: 403, Reason: metav1.StatusReasonForbidden,
			Message: `configmaps "x" is forbidden: an injected fault`,
		},
	} {
		b.arm(t, Fault{Kind: kind, Class: Read, At: 1})
		answer, err := client.Get(b.operator.Host + "/api/v1/namespaces/" + b.namespace + "/configmaps/x")
		if err != nil {
			t.Fatal(err)
		}
		var got metav1.Status
		if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got.Kind != "Status" || got.APIVersion != "v1" || got.Status != metav1.StatusFailure || got.Code != want.Code ||
			got.Reason != want.Reason || got.Message != want.Message || answer.StatusCode != int(want.Code) {
			t.Errorf("%s: got status %d with %+v", kind, answer.StatusCode, got)
		}
		if got := answer.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: got Content-Type %q", kind, got)
		}
		if got := answer.Header.Get("Retry-After"); (got == "1") != (kind == TooManyRequests) {
			t.Errorf("%s: got Retry-After %q", kind, got)
		}
	}
}

// The API server answers a forbidden request without reading its body. The proxy once handed on such an answer in a way
// that made an HTTP/2 client wait forever for the rest.
func TestForbiddenRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	accounts := b.direct.CoreV1().ServiceAccounts(b.namespace)
	nobody := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}
	if _, err := accounts.Create(ctx, nobody, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(ctx, nobody.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(b.operator)
	config.BearerToken, config.QPS = token.Status.Token, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 300 {
		uid := types.UID("1")
		err := client.CoreV1().Secrets("default").Delete(ctx, "none", metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid},
		})
		if !apierrors.IsForbidden(err) {
			t.Fatalf("deletion %d: error = %v, want forbidden", n, err)
		}
	}
}

func TestRetryingClientSucceeds(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.create(t, "x")
	client := b.client(t)
	b.arm(t,
		Fault{Kind: Conflict, Class: Write, At: 1}, Fault{Kind: Conflict, Class: Write, At: 2},
		Fault{Kind: TooManyRequests, Class: Read, At: 2})
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		return set(t.Context(), client, b.namespace, "x", "done")
	}); err != nil {
		t.Fatal(err)
	}
	if got := b.value(t, "x"); got != "done" {
		t.Errorf("got value %q", got)
	}
	var codes []int
	for _, entry := range b.Log() {
		codes = append(codes, entry.Code)
	}
	if want := []int{200, 409, 429, 200, 409, 200, 200}; !slices.Equal(codes, want) {
		t.Errorf("got codes %v, want %v", codes, want)
	}
	if log := b.Log(); log[3].Time.Sub(log[2].Time) < time.Second {
		t.Errorf("the client did not wait for a second:\n%s\n%s", log[2], log[3])
	}
}

// Other clusters have streaming lists, and the embedded one has none. Through the proxy both give the same answer, and
// a client lists instead.
func TestAStreamingListIsRefusedOnEveryCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	yes := true
	streaming := metav1.ListOptions{
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	}
	_, refused := b.direct.CoreV1().ConfigMaps(b.namespace).Watch(t.Context(), streaming)
	if !apierrors.IsInvalid(refused) {
		t.Fatalf("the embedded cluster has streaming lists: %v", refused)
	}
	for _, test := range []struct {
		name  string
		code  int
		query string
		want  string
	}{
		{name: "streaming list", code: http.StatusOK, query: "watch=true&sendInitialEvents=true", want: refused.Error()},
		{name: "without bookmarks", code: http.StatusOK, query: "watch=1&sendInitialEvents=false", want: refused.Error()},
		{name: "forbidden", code: http.StatusForbidden, query: "watch=true&sendInitialEvents=true", want: "of the cluster"},
		{name: "watch", code: http.StatusOK, query: "watch=true", want: "of the cluster"},
		{name: "list", code: http.StatusOK, query: "sendInitialEvents=true", want: "of the cluster"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cluster := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json;stream=watch")
				w.WriteHeader(test.code)
				_, _ = io.WriteString(w, `{"message":"of the cluster"}`)
			}))
			t.Cleanup(cluster.Close)
			injector := New(nil)
			t.Cleanup(func() { injector.Close() })
			authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw})
			host, ca, err := injector.ProxyAPI(&rest.Config{
				Host:            cluster.URL,
				TLSClientConfig: rest.TLSClientConfig{CAData: authority},
			})
			if err != nil {
				t.Fatal(err)
			}
			client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Get(host + "/api/v1/namespaces/x/configmaps?" + test.query)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			var status metav1.Status
			if err := json.NewDecoder(answer.Body).Decode(&status); err != nil || status.Message != test.want {
				t.Errorf("got %d, %q (error = %v), want %q", answer.StatusCode, status.Message, err, test.want)
			}
			if log := injector.Log(); len(log) != 1 || log[0].Code != answer.StatusCode {
				t.Errorf("the answer has the code %d, but the log is %+v", answer.StatusCode, log)
			}
		})
	}
}
