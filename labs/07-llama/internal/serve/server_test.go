// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"lva.io/operators/labs/07-llama/api/v1alpha"
	"lva.io/operators/labs/07-llama/internal/llama"
	"lva.io/operators/labs/07-llama/internal/serve"
	"lva.io/operators/labs/07-llama/internal/store"
)

// believer takes the user from a header, since these tests are not about authentication. The user nobody may do
// nothing.
type believer struct{}

func (believer) Authenticate(r *http.Request) (serve.User, error) {
	return serve.User{Name: r.Header.Get("User")}, nil
}

func (believer) Authorize(_ context.Context, user serve.User, action serve.Action) error {
	if user.Name == "nobody" {
		return apierrors.NewForbidden(action.Resource.GroupResource(), action.Name, io.EOF)
	}
	return nil
}

// anywhere says that each namespace exists.
type anywhere struct{}

func (anywhere) AllowCreate(context.Context, schema.GroupResource, string, string) error { return nil }

const (
	root  = "/apis/farm.example.com/v1alpha"
	carla = root + "/namespaces/default/llamas/carla"
	herd  = root + "/namespaces/default/llamas"
)

func start(t *testing.T) (url string, server *serve.Server) {
	t.Helper()
	llamas, _ := herdOf(t)
	return startWith(t, llamas.Resource())
}

// herdOf are the llamas of a new store.
func herdOf(t *testing.T) (*llama.Llamas, *store.Store) {
	t.Helper()
	storage, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = storage.Close() })
	llamas, err := llama.New(storage, anywhere{})
	if err != nil {
		t.Fatal(err)
	}
	return llamas, storage
}

func startWith(t *testing.T, resource serve.Resource) (url string, server *serve.Server) {
	t.Helper()
	server, err := serve.New(v1alpha.GroupVersion, believer{}, resource)
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Stop()
		listener.Close()
	})
	return listener.URL, server
}

// ask sends a request and returns the code, and the answer as JSON.
func ask(t *testing.T, method, url, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got := answer.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/json") {
		t.Errorf("%s %s: the content type is %q", method, url, got)
	}
	var content map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&content); err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return answer.StatusCode, content
}

func at(content map[string]any, path ...string) any {
	var value any = content
	for _, name := range path {
		inner, _ := value.(map[string]any)
		value = inner[name]
	}
	return value
}

const tableForm = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

func TestDrainStopsNothingButReadiness(t *testing.T) {
	t.Parallel()
	url, server := start(t)
	server.Drain()
	for path, want := range map[string]int{"/readyz": 503, "/livez": 200, "/healthz": 200} {
		if code, _ := statusOnly(t, url+path); code != want {
			t.Errorf("%s answers %d, want %d", path, code, want)
		}
	}
}

// panicking panics at a get.
type panicking struct {
	serve.Reader
	with any
}

func (p panicking) Get(context.Context, string, string) (runtime.Object, error) { panic(p.with) }

func TestAPanicIsLoggedAndNotTold(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	resource := (&llama.Llamas{}).Resource()
	resource.Reader = panicking{with: "the secret of the herd"}
	url, _ := startWith(t, resource)
	code, content := ask(t, "GET", url+carla, "")
	if code != 500 || at(content, "reason") != "InternalError" || strings.Contains(fmt.Sprint(content), "secret") {
		t.Errorf("a panic is answered with %d %v", code, content)
	}
}

func TestAHandlerCanAbort(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	resource := (&llama.Llamas{}).Resource()
	resource.Reader = panicking{with: http.ErrAbortHandler}
	url, _ := startWith(t, resource)
	if answer, err := http.Get(url + carla); err == nil {
		answer.Body.Close()
		t.Errorf("the connection is not broken off: the answer is %s", answer.Status)
	}
}

func TestAFullStoreRefusesWhatIsNew(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	llamas, storage := herdOf(t)
	var err error
	for i := 0; err == nil; i++ {
		_, err = storage.Create(&v1alpha.Llama{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("woolly-%d", i),
			Annotations: map[string]string{"wool": strings.Repeat("x", 200<<10)},
		}})
	}
	url, _ := startWith(t, llamas.Resource())
	body := `{"apiVersion":"farm.example.com/v1alpha","kind":"Llama","spec":{},` +
		`"metadata":{"name":"luna","annotations":{"wool":"` + strings.Repeat("x", 250<<10) + `"}}}`
	code, content := ask(t, "POST", url+herd, body)
	message, _ := content["message"].(string)
	if code != 403 || at(content, "reason") != "Forbidden" || !strings.Contains(message, "exceeded quota") {
		t.Errorf("a create is answered with %d %v", code, content)
	}
	for _, name := range []string{"woolly-0", "woolly-1"} {
		if code, content := ask(t, "DELETE", url+herd+"/"+name, ""); code != 200 {
			t.Errorf("a delete is answered with %d %v", code, content)
		}
	}
	if code, content := ask(t, "POST", url+herd, body); code != 201 {
		t.Errorf("after that a create is answered with %d %v", code, content)
	}
}

// expiring is a reader whose watches end with an error as client-go hands it over: without kind and apiVersion.
type expiring struct{ serve.Reader }

func (expiring) Watch(context.Context, string, metav1.ListOptions) (iter.Seq[watch.Event], error) {
	return func(yield func(watch.Event) bool) {
		yield(watch.Event{Type: watch.Error, Object: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		}})
	}, nil
}

func (expiring) List(context.Context, string, metav1.ListOptions) (runtime.Object, error) {
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
	}}
}

func TestAnErrorIsAStatusInAnyAnswer(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	resource := (&llama.Llamas{}).Resource()
	resource.Reader = expiring{}
	url, _ := startWith(t, resource)
	_, listed := ask(t, "GET", url+herd, "")
	_, watched := watchEvents(t, url+herd+"?watch=1")
	told, _ := at(watched, "object").(map[string]any)
	for what, status := range map[string]map[string]any{"list": listed, "watch": told} {
		if status["kind"] != "Status" || status["apiVersion"] != "v1" || status["code"] != 410.0 {
			t.Errorf("a %s ends with %v", what, status)
		}
	}
}

func statusOnly(t *testing.T, url string) (int, error) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Body.Close()
}
