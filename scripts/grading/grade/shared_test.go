// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage/shared"
)

// sharedCluster is an embedded cluster that is treated as a shared one: only its owners start it, end it, or read its
// audit log.
type sharedCluster struct {
	*embedded.Cluster
	client dynamic.Interface
}

func newSharedCluster(t *testing.T) *sharedCluster {
	t.Helper()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := embedded.Start(t.Context(), have.ControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &sharedCluster{Cluster: cluster, client: dynamic.NewForConfigOrDie(cluster.Config())}
}

// options returns options for grading the solution of a lab there.
func (e *sharedCluster) options(t *testing.T, lab string) Options {
	t.Helper()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	listed, err := have.Labs.Lab(lab)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, lab, have.SolutionDir(listed))
	o.On, o.Start = "existing", shared.Cluster{File: e.Kubeconfig, Context: embedded.Context, Holder: t.Name()}.Start
	return o
}

var icecreamKinds = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// snapshot returns all objects by identity, except Events, which come and go.
func (e *sharedCluster) snapshot(t *testing.T) map[string]string {
	t.Helper()
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(e.Config()).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	client := metadata.NewForConfigOrDie(e.Config())
	all := map[string]string{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range list.APIResources {
			if kind.Name == "events" || !slices.Contains(kind.Verbs, "list") {
				continue
			}
			found, err := client.Resource(version.WithResource(kind.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range found.Items {
				if kind.Name == "leases" && strings.HasPrefix(one.Name, "apiserver-") {
					continue // the API server creates its identity's Lease some time after its start
				}
				all[fmt.Sprintf("%s %s/%s", kind.Name, one.Namespace, one.Name)] = string(one.UID)
			}
		}
	}
	return all
}

// settled returns the first snapshot that contains these objects: the controllers create objects for a namespace a
// moment after it.
func (e *sharedCluster) settled(t *testing.T, made ...string) (all map[string]string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			all = e.snapshot(t)
			return !slices.ContainsFunc(made, func(name string) bool { return all[name] == "" }), nil
		})
	if err != nil {
		t.Fatalf("waiting for %v: %v", made, err)
	}
	return all
}

func (e *sharedCluster) make(t *testing.T, resource schema.GroupVersionResource, object map[string]any) {
	t.Helper()
	untyped := &unstructured.Unstructured{Object: object}
	if _, err := e.client.Resource(resource).Create(t.Context(), untyped, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// definition returns the CustomResourceDefinition of icecreams, with labels if there are any.
func definition(labels map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "icecreams.demo.lva.io", "labels": labels},
		"spec": map[string]any{
			"group": "demo.lva.io", "scope": "Cluster",
			"names": map[string]any{
				"kind": "Icecream", "listKind": "IcecreamList", "plural": "icecreams", "singular": "icecream",
			},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}
}

func wantFull(t *testing.T, got *report.Report) {
	t.Helper()
	if got.FullMarks() {
		return
	}
	t.Errorf("outcome is %s with %d of %d points: %s\n%s",
		got.Outcome, got.Score, got.MaxScore, got.Reason, strings.Join(got.OperatorLog, "\n"))
	for _, check := range got.Checks {
		if check.Status != report.Passed {
			t.Errorf("%s: expected %s\nobserved %s\n%s",
				check.ID, check.Expected, check.Observed, strings.Join(check.Evidence, "\n"))
		}
	}
}

// One shared cluster runs one submission after the other. Each finds what the one before it left.
func TestSharedCluster(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	e := newSharedCluster(t)
	type row struct {
		name string
		test func(*testing.T)
	}
	for _, test := range []row{
		{"the cluster is restored", e.testRestored},
		{"runs take turns and remove leftovers", e.testTurns},
		{"a submission is isolated", e.testIsolation},
		{"foreign objects are kept", e.testForeignObjects},
	} {
		t.Run(test.name, test.test)
	}
}

func (e *sharedCluster) testRestored(t *testing.T) {
	t.Helper()
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	e.make(t, namespaces, map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "visitor"},
	})
	before := e.settled(t, "serviceaccounts visitor/default", "configmaps visitor/kube-root-ca.crt")
	// This lab uses everything: an operator that is killed, a service, a script, and objects that are slow to delete.
	result := grade(t.Context(), t, e.options(t, "3"))
	wantFull(t, result)
	if result.Environment.Cluster != "existing" || len(result.Timeline) == 0 {
		t.Errorf("the report names the cluster %q, with %d moments", result.Environment.Cluster, len(result.Timeline))
	}
	if after := e.snapshot(t); !maps.Equal(before, after) {
		for name, uid := range after {
			if before[name] != uid {
				t.Errorf("created: %s", name)
			}
		}
		for name := range before {
			if _, found := after[name]; !found {
				t.Errorf("deleted: %s", name)
			}
		}
	}
}

func (e *sharedCluster) testTurns(t *testing.T) {
	t.Helper()
	ownLabel := map[string]any{existing.Label: "true"}
	e.make(t, icecreamKinds, definition(ownLabel))
	icecreams := schema.GroupVersionResource{Group: "demo.lva.io", Version: "v1", Resource: "icecreams"}
	zombie := map[string]any{
		"apiVersion": "demo.lva.io/v1", "kind": "Icecream",
		"metadata": map[string]any{"name": "zombie", "finalizers": []any{"demo.lva.io/finalizer"}},
	}
	deadline := time.After(20 * time.Second)
	for {
		_, err := e.client.Resource(icecreams).Create(t.Context(),
			&unstructured.Unstructured{Object: zombie}, metav1.CreateOptions{})
		if err == nil {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatal(err)
		}
	}
	e.make(t, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "operator-system", "labels": ownLabel},
		})
	var waited sync.Map
	var both sync.WaitGroup
	turn := func(i int) Options {
		o := e.options(t, "1")
		o.View = progressView{progress: func(note string) { waited.Store(note, i) }}
		return o
	}
	other := turn(0)
	both.Go(func() { wantFull(t, Run(context.WithoutCancel(t.Context()), other)) })
	wantFull(t, grade(t.Context(), t, turn(1)))
	both.Wait()
	notice := ""
	waited.Range(func(note, _ any) bool { notice = note.(string); return false })
	match(t, "the progress of the second run", notice, t.Name()+" works on this cluster, since ")
	if _, err := e.client.Resource(icecreamKinds).
		Get(t.Context(), "icecreams.demo.lva.io", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the definition still exists: %v", err)
	}
}

func (e *sharedCluster) testForeignObjects(t *testing.T) {
	t.Helper()
	e.make(t, icecreamKinds, definition(nil))
	before := e.snapshot(t)
	result := grade(t.Context(), t, e.options(t, "1"))
	if result.Outcome != report.Error || result.Score != 0 {
		t.Errorf("outcome is %s with %d points", result.Outcome, result.Score)
	}
	match(t, "the reason", result.Reason,
		"^the CustomResourceDefinition icecreams.demo.lva.io already exists in the cluster .* remove it")
	if after := e.snapshot(t); !maps.Equal(before, after) {
		t.Errorf("objects before the run are\n%v\nand after it\n%v", before, after)
	}
}

// On a shared cluster, a submission gets only the permissions that a lab's operator needs.
func (e *sharedCluster) testIsolation(t *testing.T) {
	t.Helper()
	for _, test := range []struct{ submission, reason string }{
		{"wants-everything", "^the ClusterRole manager-role needs rights that no lab's operator has on a cluster " +
			"that others use, too: grade it on the embedded cluster"},
		{"wants-a-namespace", "^the Role manager-role needs rights " +
			"that no lab's operator has on a cluster that others use, too"},
	} {
		before := e.snapshot(t)
		o := e.options(t, "2")
		o.Dir, o.BuildCache = unpack(t, test.submission), ""
		result := grade(t.Context(), t, o)
		if result.Outcome != report.NotGenerated || result.Score != 0 {
			t.Errorf("outcome is %s with %d points", result.Outcome, result.Score)
		}
		match(t, "the reason", result.Reason, test.reason)
		if after := e.snapshot(t); !maps.Equal(before, after) {
			t.Errorf("objects before the run are\n%v\nand after it\n%v", before, after)
		}
	}
}

// progressView is a View that receives what a run waits for.
type progressView struct {
	silent
	progress func(note string)
}

func (p progressView) StepProgress(_, note string) { p.progress(note) }
