// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

// scaffold is an operator with a webhook that uses only the standard library, so that it builds quickly. It denies
// matcha. Its CRD and its webhook's manifests are committed, and it has no markers.
const scaffold = samples.Module + `-- cmd/main.go --
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

func main() {
	port := flag.Int("PORTFLAG", 9443, "")
	flag.Parse()
	folder := filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	if err != nil {
		panic(err)
	}
	listener, err := tls.Listen("tcp", fmt.Sprintf(":%d", *port), &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		panic(err)
	}
	panic(http.Serve(listener, http.HandlerFunc(decide)))
}

func decide(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string ` + "`json:\"apiVersion\"`" + `
		Request    struct {
			UID    string
			Object struct{ Spec struct{ Flavour string } }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": review.APIVersion, "kind": "AdmissionReview", "response": map[string]any{
			"uid": review.Request.UID, "allowed": review.Request.Object.Spec.Flavour != "matcha",
			"status": map[string]any{"message": "no matcha, says " + r.TLS.ServerName + r.URL.Path + " to " + review.APIVersion},
		},
	})
}
-- config/crd/bases/demo.lva.io_icecreams.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: icecreams.demo.lva.io
spec:
  group: demo.lva.io
  scope: Cluster
  names: {kind: Icecream, plural: icecreams}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const (
	fixedPort = "THE-PORT-IS-9443" // a flag that is never passed
	anyPort   = submission.WebhookPortFlag
)

func operatorWith(portFlag, files string) string {
	return strings.Replace(scaffold, "PORTFLAG", portFlag, 1) + files
}

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		victim()
		return
	}
	os.Exit(stagetest.Main(m))
}

// fixture is a cluster in which a test runs submissions with webhooks.
type fixture struct {
	*embedded.Cluster
	*testing.T
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	return fixture{Cluster: stagetest.Cluster(t), T: t}
}

// operate builds a submission, installs it in the cluster and registers its webhooks. end removes the routes to them.
func (f fixture) operate(files string) (o *operator, end func()) {
	f.Helper()
	prepared, err := f.install(files).Prepare(f.Context(), f.failOnWait)
	if err != nil {
		f.Fatal(err)
	}
	end = func() {
		if err := prepared.Close(); err != nil {
			f.Error(err)
		}
	}
	f.Cleanup(end)
	return prepared.(*operator), end
}

// failOnWait fails the test, because its operator must not have to wait.
func (f fixture) failOnWait(reason string) { f.Errorf("unexpected wait: %s", reason) }

// install builds a submission, and installs its API in the cluster.
func (f fixture) install(files string) *installed {
	return f.installWithRoute(ByEgress(f.Egress), files)
}

func (f fixture) installWithRoute(route Route, files string) *installed {
	f.Helper()
	b := stagetest.Builder(f.T, samples.Lay(f.T, files))
	if err := b.Build(f.Context()); err != nil {
		f.Fatal(err)
	}
	manifests, err := b.Generate(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	st := New(&stage.Cluster{Config: f.Config()}, route)
	made, err := st.Install(f.Context(),
		stage.Submission{Builder: b, Manifests: manifests, Webhooks: true}, stage.Gateway{})
	if err != nil {
		f.Fatal(err)
	}
	return made.(*installed)
}

// start starts the operator and waits until its webhooks listen.
func (f fixture) start(o *operator) (kill func()) {
	f.Helper()
	started, err := o.Start(os.Stderr)
	if err != nil {
		f.Fatal(err)
	}
	if err := o.AwaitListening(f.Context()); err != nil {
		f.Fatal(err)
	}
	return func() {
		if err := started.Kill(); err != nil {
			f.Error(err)
		}
	}
}

// ask creates an icecream in a dry run.
func (f fixture) ask(flavour string) error {
	f.Helper()
	client, err := dynamic.NewForConfig(f.Config())
	if err != nil {
		f.Fatal(err)
	}
	_, err = client.Resource(schema.GroupVersionResource{Group: "demo.lva.io", Version: "v1", Resource: "icecreams"}).
		Create(f.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "demo.lva.io/v1", "kind": "Icecream", "metadata": map[string]any{"name": "sundae"},
			"spec": map[string]any{"flavour": flavour},
		}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// becomes waits until the error contains the wanted text, or until there is none if the text is empty. The API server
// learns of a configuration a moment after its creation.
func (f fixture) becomes(flavour, want string) {
	f.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f.ask(flavour)
		if want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			f.Fatalf("create with flavour %s: error = %v, want %q", flavour, err, want)
		}
	}
}
