// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

// aggregatedServer serves a group without kinds: enough to be Available. PORTFLAG is its flag for the port.
const aggregatedServer = samples.Module + `-- cmd/main.go --
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	port := flag.Int("PORTFLAG", 9443, "where it listens")
	certificate := flag.String("tls-cert-file", "", "its certificate")
	key := flag.String("tls-private-key-file", "", "the key of that")
	data := flag.String("data-dir", "/data", "where it stores")
	flag.Parse()
	if err := os.WriteFile(filepath.Join(*data, "llamas"), nil, 0o600); err != nil {
		panic(err)
	}
	http.HandleFunc("/apis/farm.example.com/v1alpha", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, ` + "`" + `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"farm.example.com/v1alpha","resources":[]}` + "`" + `)
	})
	server := &http.Server{Addr: fmt.Sprintf(":%d", *port)}
	go server.ListenAndServeTLS(*certificate, *key)
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	<-stop.Done()
	server.Shutdown(context.Background()) // answers the requests that it has
}
-- config/apiservice/apiservice.yaml --
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha.farm.example.com}
spec:
  group: farm.example.com
  version: v1alpha
  groupPriorityMinimum: 1000
  versionPriority: 15
  service: {name: llama, namespace: farm, port: 443}
-- config/apiservice/service.yaml --
apiVersion: v1
kind: Service
metadata: {name: llama, namespace: farm}
spec:
  selector: {app: llama}
  ports:
  - {port: 443, targetPort: 9443}
-- config/rbac/delegation.yaml --
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: llama-reader, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: llama, namespace: farm}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: llama-everything}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: llama, namespace: farm}]
`

func aggregated(t *testing.T, f fixture, files string) (*server, error) {
	t.Helper()
	b := stagetest.Builder(t, samples.Lay(t, files))
	if err := b.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	manifests, err := b.Generate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	st := New(&stage.Cluster{Config: f.Config()}, ByEgress(f.Egress))
	what := stage.Submission{Builder: b, Manifests: manifests, Aggregated: true, ControlPlane: repo.ControlPlane.Path}
	made, err := st.Install(t.Context(), what, stage.Gateway{})
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := made.Prepare(t.Context(), f.failOnWait)
	if err != nil {
		return nil, err
	}
	return prepared.(*server), nil
}

// The aggregator reaches a server on this machine, and learns at once when the server ends and when it is started
// again. Close removes all objects of the server.
func TestAggregatedServerIsAvailableWhileItRuns(t *testing.T) {
	f := newFixture(t)
	s, err := aggregated(t, f, strings.Replace(aggregatedServer, "PORTFLAG", submission.SecurePortFlag, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	client := dynamic.NewForConfigOrDie(f.Config())
	becomes := func(status string) {
		t.Helper()
		began := time.Now()
		if err := await.Change(t.Context(), client.Resource(submission.APIServices),
			metav1.ListOptions{FieldSelector: "metadata.name=v1alpha.farm.example.com"},
			func(change watch.Event) (bool, error) {
				now, ok := change.Object.(*unstructured.Unstructured)
				return ok && install.ConditionIs(now, "Available", status), nil
			}); err != nil {
			t.Fatalf("Available does not become %s: %v", status, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("Available became %s after %s: the API server was not notified, and polled", status, took)
		}
	}
	for range 2 {
		started, err := s.Start(os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.AwaitListening(t.Context()); err != nil {
			t.Fatal(err)
		}
		becomes("True")
		if err := started.Kill(); err != nil {
			t.Fatal(err)
		}
		becomes("False")
	}
	testReplace(t, f, s, func() { becomes("True") })
	if _, err := os.Stat(s.Serving().DataDir + "/llamas"); err != nil {
		t.Errorf("the server does not store its data in DataDir: %v", err)
	}
	// Its account gets the roles for delegation, and no others that its bindings name.
	rbac := kubernetes.NewForConfigOrDie(f.Config()).RbacV1()
	if _, err := rbac.RoleBindings("kube-system").Get(t.Context(),
		"operator-labs:extension-apiserver-authentication-reader", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := rbac.ClusterRoleBindings().
		Get(t.Context(), "operator-labs:cluster-admin", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Get() of the binding to cluster-admin: error = %v, want not found", err)
	}

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(submission.APIServices).Get(t.Context(),
		"v1alpha.farm.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Get() of the APIService after Close: error = %v, want not found", err)
	}
	if _, err := client.Resource(install.Services).Namespace(submission.AccountNamespace).Get(t.Context(),
		"llama", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Get() of the Service after Close: error = %v, want not found", err)
	}
}

// testReplace replaces a server with a new instance. A client that sends a request at once gets an answer, and the API
// stays Available.
func testReplace(t *testing.T, f fixture, s *server, available func()) {
	t.Helper()
	started, err := s.Start(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AwaitListening(t.Context()); err != nil {
		t.Fatal(err)
	}
	available()
	api := kubernetes.NewForConfigOrDie(f.Config()).RESTClient()
	for range 3 {
		if started, err = s.Replace(started, os.Stderr, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := api.Get().AbsPath("/apis/farm.example.com/v1alpha").MaxRetries(0).Do(t.Context()).Error(); err != nil {
			t.Errorf("a request during the replacement fails: %v", err)
		}
	}
	if err := started.Kill(); err != nil {
		t.Fatal(err)
	}
}

// The data in a server's etcd survives a kill of the server, and the etcd ends with the run.
func TestServerWithAnEtcdFlagGetsAnEtcd(t *testing.T) {
	f := newFixture(t)
	files := strings.Replace(aggregatedServer, "PORTFLAG", submission.SecurePortFlag, 1)
	s, err := aggregated(t, f, strings.Replace(files, "flag.Parse()", `flag.String("etcd-servers", "", "where its etcd is")
	flag.String("authorization-kubeconfig", "", "where it asks what a user may do")
	flag.Parse()`, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	i := slices.IndexFunc(s.Arguments(), func(argument string) bool {
		return strings.HasPrefix(argument, "--etcd-servers=")
	})
	if i < 0 {
		t.Fatalf("got arguments %q, want --etcd-servers", s.Arguments())
	}
	etcd := strings.TrimPrefix(s.Arguments()[i], "--etcd-servers=")
	ask := func(call, body string) string {
		t.Helper()
		answer, err := http.Post(etcd+"/v3/kv/"+call, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		content, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("etcd answers %s %s: %v", answer.Status, content, err)
		}
		return string(content)
	}
	const key, value = "bGxhbWE=", "Y2FybGE=" // llama, carla
	if got := ask("range", `{"key":"`+key+`"}`); strings.Contains(got, value) {
		t.Errorf("etcd is not empty at the start: %s", got)
	}
	started, err := s.Start(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	ask("put", `{"key":"`+key+`","value":"`+value+`"}`)
	if err := started.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := ask("range", `{"key":"`+key+`"}`); !strings.Contains(got, value) {
		t.Errorf("got %s from etcd after the server was killed", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(etcd + "/health"); !utilnet.IsConnectionRefused(err) {
		t.Errorf("etcd after Close: error = %v, want a refused connection", err)
	}
}

func TestServerWithoutAPortFlagIsRefused(t *testing.T) {
	f := newFixture(t)
	_, err := aggregated(t, f, strings.Replace(aggregatedServer, "PORTFLAG", "port", 1))
	if problem := stagetest.ProblemOf(t, err); !strings.Contains(problem.Reason, "--secure-port") {
		t.Errorf("got reason %q", problem.Reason)
	}
}
