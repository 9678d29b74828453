// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/multicall"
)

// kubeconfigVariable makes this test binary install cert-manager, until the test kills it. storeVariable is the folder
// of the charts.
const (
	kubeconfigVariable = "OPERATOR_LABS_TEST_KUBECONFIG"
	storeVariable      = "OPERATOR_LABS_TEST_STORE"
)

func TestMain(m *testing.M) {
	if kubeconfig := os.Getenv(kubeconfigVariable); kubeconfig != "" {
		if err := install(kubeconfig, os.Getenv(storeVariable)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if store.dir != "" {
		_ = os.RemoveAll(store.dir)
	}
	os.Exit(code)
}

func install(kubeconfig, dir string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	return CertManager(storeIn(dir)).Install(context.Background(), Target{Config: config}, func(line string) {
		fmt.Println(line)
	})
}

func checkout() string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return root
}

func storeIn(dir string) *images.Store {
	s := images.StoreOf(checkout())
	s.Dir = dir
	return s
}

// store is the folder of the charts, for all tests.
var store struct {
	once sync.Once
	dir  string
	err  error
}

func charts(t *testing.T) *images.Store {
	t.Helper()
	store.once.Do(func() { store.dir, store.err = os.MkdirTemp("", "addons-test-") }) //nolint:usetesting // it outlives the test that makes it
	if store.err != nil {
		t.Fatal(store.err)
	}
	return storeIn(store.dir)
}

// scene is a cluster without Pods and an add-on for it.
type scene struct {
	*embedded.Cluster
	target   Target
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	messages []string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	program, err := multicall.New(checkout())
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	cluster, err := embedded.Start(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	s := &scene{Cluster: cluster, target: Target{Config: cluster.Config(), Kubeconfig: cluster.Kubeconfig}}
	if s.client, err = kubernetes.NewForConfig(cluster.Config()); err != nil {
		t.Fatal(err)
	}
	if s.dynamic, err = dynamic.NewForConfig(cluster.Config()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scene) report(line string) { s.messages = append(s.messages, line) }

// reported reports whether a message contains the words, and removes all messages.
func (s *scene) reported(words string) bool {
	messages := strings.Join(s.messages, "\n")
	s.messages = nil
	return strings.Contains(messages, words)
}

func (s *scene) install(t *testing.T) {
	t.Helper()
	s.messages = nil
	if err := CertManager(charts(t)).Install(t.Context(), s.target, s.report); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) release(t *testing.T) *helm {
	t.Helper()
	h, err := newHelm(s.target, "cert-manager", certManagerNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// revisions returns the release's revisions with their statuses, oldest first.
func (s *scene) revisions(t *testing.T) string {
	t.Helper()
	history, err := s.release(t).config.Releases.History("cert-manager")
	if err != nil {
		t.Fatal(err)
	}
	words := make([]string, len(history))
	for i, r := range history {
		words[i] = fmt.Sprintf("%d %s", r.Version, r.Info.Status)
	}
	return strings.Join(words, ", ")
}

// setStatus gives the newest revision the status that it has when Helm is killed.
func (s *scene) setStatus(t *testing.T, status release.Status) {
	t.Helper()
	h := s.release(t)
	last, err := h.last()
	if err != nil || last == nil {
		t.Fatal(last, err)
	}
	last.SetStatus(status, "by a test")
	if err := h.config.Releases.Update(last); err != nil {
		t.Fatal(err)
	}
}

// installed fails the test unless cert-manager is installed completely, and only once.
func (s *scene) installed(t *testing.T) {
	t.Helper()
	h := s.release(t)
	last, err := h.last()
	if err != nil || last == nil || last.Info.Status != release.StatusDeployed {
		t.Fatalf("newest revision = %v, %v, want a deployed one", last, err)
	}
	if missing, err := h.missing(last); missing != "" || err != nil {
		t.Errorf("missing = %s, %v, want none", missing, err)
	}
	state, err := CertManager(charts(t)).State(t.Context(), s.target)
	if err != nil || state.Installed == "" || state.Installed != state.Pinned {
		t.Errorf("State() = %+v, %v, want the pinned version installed", state, err)
	}
	for _, resource := range []string{"issuers", "certificates"} {
		list, err := s.dynamic.Resource(issuerKind.GroupVersion().WithResource(resource)).List(t.Context(),
			metav1.ListOptions{})
		if err != nil {
			t.Errorf("listing %s: %v", resource, err)
		}
		_ = list
	}
}

// define creates a CustomResourceDefinition as an install without Helm left it, and waits until it is served.
func (s *scene) define(t *testing.T, plural, kind, group, version string) *unstructured.Unstructured {
	t.Helper()
	definition, err := s.dynamic.Resource(definitions).Create(t.Context(), &unstructured.Unstructured{
		Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": plural + "." + group},
			"spec": map[string]any{
				"group": group, "scope": "Namespaced",
				"names": map[string]any{
					"plural": plural, "singular": strings.ToLower(kind),
					"kind": kind, "listKind": kind + "List",
				},
				"versions": []any{map[string]any{
					"name": version, "served": true, "storage": true,
					"schema": map[string]any{
						"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
					},
				}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resource := resourceOf(definition)
	if err := until(t.Context(), 20*time.Second, "the test's kind", func(ctx context.Context) (string, error) {
		if _, err := s.dynamic.Resource(resource).List(ctx, metav1.ListOptions{}); err != nil {
			return err.Error(), nil //nolint:nilerr // that is what is waited for
		}
		return "", nil
	}); err != nil {
		t.Fatal(err)
	}
	return definition
}

func (s *scene) object(
	t *testing.T, definition *unstructured.Unstructured, finalizers ...string,
) *unstructured.Unstructured {
	t.Helper()
	resource := resourceOf(definition)
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": "old"},
	}}
	object.SetFinalizers(finalizers)
	created, err := s.dynamic.Resource(resource).Namespace(metav1.NamespaceDefault).Create(t.Context(), object,
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}
