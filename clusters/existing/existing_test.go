// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package existing

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/progress"
)

// theirs is the context of an existing cluster. The kubeconfig of an embedded cluster has one context, with this name.
const theirs = embedded.Context

var shared *embedded.Cluster

func TestMain(m *testing.M) {
	os.Exit(func() int {
		root, err := filepath.Abs(filepath.Join("..", ".."))
		if err != nil {
			panic(err)
		}
		program, err := multicall.New(root)
		if err != nil {
			panic(err)
		}
		if !program.Fresh() {
			bar := progress.Start(os.Stderr, "build Kubernetes (once)")
			if err := program.Ensure(context.Background(), bar.Set); err != nil {
				panic(err)
			}
			bar.Done()
		}
		if shared, err = embedded.Start(context.Background(), program); err != nil {
			panic(err)
		}
		defer func() { _ = shared.Stop() }()
		leaseDuration, leaseRenewal, leasePoll = 2*time.Second, 300*time.Millisecond, 50*time.Millisecond
		return m.Run()
	}())
}

func opened(t *testing.T) *Cluster {
	t.Helper()
	c, err := Open(t.Context(), shared.Kubeconfig, theirs)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func want(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error = %v, want it to contain %q", err, part)
	}
}

func TestContextSelectsCluster(t *testing.T) {
	c := opened(t)
	if c.Version != shared.Version || c.Config().Host != shared.Host() {
		t.Errorf("version %s at %s", c.Version, c.Config().Host)
	}
	_, err := Open(t.Context(), shared.Kubeconfig, "elsewhere")
	want(t, err, `there is no context "elsewhere" in the kubeconfig (`+shared.Kubeconfig+`): it has operator-labs`)
	_, err = Open(t.Context(), filepath.Join(t.TempDir(), "none"), "elsewhere")
	want(t, err, "reading the kubeconfig")

	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.WriteKubeconfig(file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the kubeconfig = %v, %v", info.Mode(), err)
	}
	again, err := Open(t.Context(), file, theirs)
	if err != nil || again.Version != c.Version {
		t.Errorf("Open() of the written kubeconfig = %v, %v", again, err)
	}
}

func TestUnreachableCluster(t *testing.T) {
	content, err := os.ReadFile(shared.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	gone := strings.ReplaceAll(string(content), shared.Host(), "https://127.0.0.1:1")
	if err := os.WriteFile(file, []byte(gone), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), file, theirs)
	want(t, err, "the cluster of the context operator-labs, https://127.0.0.1:1, did not report its version: "+
		"check that it runs")
}

func TestRights(t *testing.T) {
	c := opened(t)
	lacks, err := c.MissingRights(t.Context(), Right{Verb: "create", Resource: "namespaces"})
	if err != nil || len(lacks) > 0 {
		t.Errorf("MissingRights() for an administrator = %v, %v", lacks, err)
	}
	config := c.Config()
	config.Impersonate.UserName = "student"
	c = &Cluster{Context: theirs, config: config}
	lacks, err = c.MissingRights(t.Context(), Right{Verb: "create", Resource: "namespaces"},
		Right{Verb: "create", Group: "apps", Resource: "deployments"})
	if err != nil || len(lacks) != 2 || lacks[1].String() != "create deployments.apps" {
		t.Errorf("MissingRights() for a student = %v, %v", lacks, err)
	}
}

func TestLeaseHasOneHolder(t *testing.T) {
	c := opened(t)
	first, err := c.Hold(t.Context(), "Ada", func(string) { t.Error("Hold waits although the Lease is free") })
	if err != nil {
		t.Fatal(err)
	}
	reasons := make(chan string, 10)
	second := make(chan *Hold, 1)
	go func() {
		h, err := c.Hold(context.WithoutCancel(t.Context()), "Bob", func(reason string) { reasons <- reason })
		if err != nil {
			t.Error(err)
		}
		second <- h
	}()
	if reason := <-reasons; !strings.HasPrefix(reason, "Ada works on this cluster, since ") {
		t.Errorf("reason = %q", reason)
	}
	// The test waits longer than the Lease is valid, so it must be renewed.
	select {
	case <-second:
		t.Fatal("both runs hold the cluster")
	case <-first.Lost():
		t.Fatal("the Lease was lost")
	case <-time.After(2 * leaseDuration):
	}
	if err := first.Release(t.Context()); err != nil {
		t.Error(err)
	}
	h := <-second
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
	leases := kubernetes.NewForConfigOrDie(c.Config()).CoordinationV1().Leases(leaseNamespace)
	if _, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease still exists: %v", err)
	}
}

func TestLeaseOfKilledHolderExpires(t *testing.T) {
	c := opened(t)
	killed, err := c.Hold(t.Context(), "Ada", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	killed.cancel() // it is no longer renewed
	began := time.Now()
	next, err := c.Hold(t.Context(), "Bob", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < leaseDuration {
		t.Errorf("the Lease was taken after %s, but is valid for %s", took, leaseDuration)
	}
	// A holder that was only slow does not release the Lease of the next one.
	if err := killed.Release(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-next.Lost():
		t.Error("the Lease was lost")
	case <-time.After(2 * leaseRenewal):
	}
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The answer to a renewal can be lost although the renewal succeeded. The Lease is then newer than its holder knows.
func TestRenewalWithLostResponseCounts(t *testing.T) {
	c := opened(t)
	leases := kubernetes.NewForConfigOrDie(c.Config()).CoordinationV1().Leases(leaseNamespace)
	renewWithoutResponse := func() {
		patch := []byte(`{"metadata":{"annotations":{"renewed":"` + time.Now().Format(time.RFC3339Nano) + `"}}}`)
		if _, err := leases.Patch(t.Context(), leaseName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h, err := c.Hold(t.Context(), "Ada", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	renewWithoutResponse()
	select {
	case <-h.Lost():
		t.Error("the Lease counts as lost")
	case <-time.After(4 * leaseRenewal):
	}
	h.cancel()
	h.done.Wait()
	renewWithoutResponse()
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease still exists: %v", err)
	}
}

func TestLostLeaseIsSignaled(t *testing.T) {
	c := opened(t)
	h, err := c.Hold(t.Context(), "Ada", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	leases := kubernetes.NewForConfigOrDie(c.Config()).CoordinationV1().Leases(leaseNamespace)
	if err := leases.Delete(t.Context(), leaseName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.Lost():
	case <-time.After(10 * time.Second):
		t.Error("the loss was not signaled")
	}
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestHoldEndsWithItsContext(t *testing.T) {
	c := opened(t)
	h, err := c.Hold(t.Context(), "Ada", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = c.Hold(ctx, "Bob", func(string) { cancel(errors.New("enough")) })
	want(t, err, "enough")
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCleanRemovesOnlyOurObjects(t *testing.T) {
	c := opened(t)
	client := dynamic.NewForConfigOrDie(c.Config())
	namespacesOf := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	policies := schema.GroupVersionResource{
		Group:    "admissionregistration.k8s.io",
		Version:  "v1",
		Resource: "validatingadmissionpolicies",
	}
	type thing struct {
		resource        schema.GroupVersionResource
		kind, namespace string
	}
	things := []thing{
		{namespacesOf, "Namespace", ""},
		{maps, "ConfigMap", metav1.NamespaceDefault},
		{roles, "ClusterRole", ""},
		{policies, "ValidatingAdmissionPolicy", ""},
	}
	object := func(target thing, name string, labels map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name, "labels": labels}}}
		o.SetAPIVersion(target.resource.GroupVersion().String())
		o.SetKind(target.kind)
		if target.resource == policies {
			o.Object["spec"] = map[string]any{
				"validations": []any{map[string]any{"expression": "true"}},
				"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
					"apiGroups": []any{"example.com"}, "apiVersions": []any{"v1"},
					"resources": []any{"cones"}, "operations": []any{"CREATE"},
				}}},
			}
		}
		return o
	}
	create := func(target thing, o *unstructured.Unstructured) {
		t.Helper()
		if _, err := client.Resource(target.resource).Namespace(target.namespace).Create(t.Context(), o,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ours := map[string]any{Label: "true"}
	for _, one := range things {
		create(one, object(one, "theirs", nil))
		create(one, object(one, "ours", ours))
	}
	create(thing{resource: maps, namespace: "ours"}, object(things[1], "inside", nil))
	removed, err := c.Clean(t.Context())
	if err != nil || removed != len(things) {
		t.Errorf("Clean() = %d, %v", removed, err)
	}
	for _, one := range things {
		target := client.Resource(one.resource).Namespace(one.namespace)
		if _, err := target.Get(t.Context(), "theirs", metav1.GetOptions{}); err != nil {
			t.Errorf("another owner's object: %v", err)
		}
		if _, err := target.Get(t.Context(), "ours", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("our %s still exists: %v", one.kind, err)
		}
	}
	if removed, err := c.Clean(t.Context()); err != nil || removed != 0 {
		t.Errorf("second Clean() = %d, %v", removed, err)
	}
}

// Clean removes our APIServices and keeps those of others.
func TestCleanRemovesOurAPIServices(t *testing.T) {
	c := opened(t)
	client := dynamic.NewForConfigOrDie(c.Config()).Resource(apiServicesResource)
	for group, labels := range map[string]map[string]string{
		"ours.example.com":   {Label: "true"},
		"theirs.example.com": nil,
	} {
		registration := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"group": group, "version": "v1", "groupPriorityMinimum": int64(1000),
			"versionPriority": int64(15), "insecureSkipTLSVerify": true,
			"service": map[string]any{"name": "nobody", "namespace": metav1.NamespaceDefault},
		}}}
		registration.SetAPIVersion(apiServicesResource.GroupVersion().String())
		registration.SetKind("APIService")
		registration.SetName("v1." + group)
		registration.SetLabels(labels)
		if _, err := client.Create(t.Context(), registration, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := client.Delete(context.WithoutCancel(t.Context()), "v1.theirs.example.com",
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	if removed, err := c.Clean(t.Context()); err != nil || removed != 1 {
		t.Errorf("Clean() = %d, %v", removed, err)
	}
	if _, err := client.Get(t.Context(), "v1.ours.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("our APIService still exists: %v", err)
	}
	if _, err := client.Get(t.Context(), "v1.theirs.example.com", metav1.GetOptions{}); err != nil {
		t.Errorf("another owner's APIService: %v", err)
	}
}

// The conversion webhook of our kinds is gone. Objects that are stored in another version than the current storage
// version are removed all the same.
func TestCleanRemovesCRDWithDeadConverter(t *testing.T) {
	c := opened(t)
	client := dynamic.NewForConfigOrDie(c.Config())
	version := func(name string, storage bool) map[string]any {
		return map[string]any{
			"name": name, "served": true, "storage": storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
		}
	}
	const name = "wafers.ours.example.com"
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name, "labels": map[string]any{Label: "true"}},
		"spec": map[string]any{
			"group": "ours.example.com", "scope": "Cluster", "names": map[string]any{"plural": "wafers", "kind": "Wafer"},
			"versions": []any{version("v1", true), version("v2", false)},
		},
	}}
	if _, err := client.Resource(definitionsResource).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wafers := client.Resource(schema.GroupVersionResource{Group: "ours.example.com", Version: "v1", Resource: "wafers"})
	wafer := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ours.example.com/v1", "kind": "Wafer",
		"metadata": map[string]any{"name": "thin", "finalizers": []any{"example.com/held"}},
	}}
	if err := poll(t.Context(), "wafers to be served", func() (bool, error) {
		_, err := wafers.Create(t.Context(), wafer, metav1.CreateOptions{})
		return !apierrors.IsNotFound(err), ignoreGone(err)
	}); err != nil {
		t.Fatal(err)
	}
	// The other version is stored now, and the Service has no backend.
	const converted = `{"spec":{"versions":[` +
		`{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},` +
		`{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}],` +
		`"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],` +
		`"clientConfig":{"service":{"name":"gone","namespace":"default"}}}}}}`
	if _, err := client.Resource(definitionsResource).Patch(t.Context(), name, types.MergePatchType,
		[]byte(converted), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := poll(t.Context(), "a wafer to need the webhook", func() (bool, error) {
		_, err := client.Resource(schema.GroupVersionResource{
			Group: "ours.example.com", Version: "v2", Resource: "wafers",
		}).List(t.Context(), metav1.ListOptions{})
		return err != nil && strings.Contains(err.Error(), "conversion webhook"), nil
	}); err != nil {
		t.Fatal(err)
	}
	if removed, err := c.Clean(t.Context()); err != nil || removed != 1 {
		t.Errorf("Clean() = %d, %v", removed, err)
	}
	if _, err := client.Resource(definitionsResource).Get(t.Context(), name,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the kind still exists: %v", err)
	}
}
