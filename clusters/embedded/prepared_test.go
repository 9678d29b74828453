// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/process"
)

// contents returns all objects of a cluster, by kind and name, without the fields that differ between clusters.
func contents(t *testing.T, cluster *Cluster) map[string]string {
	t.Helper()
	lists, err := clientOf(t, cluster).Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	config := cluster.Config()
	config.WarningHandler = rest.NoWarnings{} // warnings that a kind is deprecated
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if resource.Name == "events" || resource.Name == "leases" || resource.Name == "componentstatuses" {
				continue
			}
			objects, err := client.Resource(version.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range objects.Items {
				if resource.Name == "services" && object.GetName() == "kubernetes" {
					port := fmt.Sprintf(`"targetPort":%d`, cluster.port.Port)
					all["the port of the API server"] = strconv.FormatBool(strings.Contains(stableFields(t, object), port))
					continue
				}
				all[strings.Join(
					[]string{version.Group, resource.Name, object.GetNamespace(), object.GetName()}, " ",
				)] = stableFields(t, object)
			}
		}
	}
	return all
}

// stableFields returns an object without its metadata, its certificates, and the fields that the controllers write
// after the start.
func stableFields(t *testing.T, object unstructured.Unstructured) string {
	t.Helper()
	for _, field := range []string{"metadata", "status", "data", "rules"} {
		if field != "rules" || object.Object["aggregationRule"] != nil {
			delete(object.Object, field)
		}
	}
	content, err := json.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// differences lists the objects that are missing in a or b, or differ, with both versions.
func differences(a, b map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			all = append(all, fmt.Sprintf("%s: %q and %q", name, a[name], b[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, found := a[name]; !found {
			all = append(all, fmt.Sprintf("%s: only %q", name, b[name]))
		}
	}
	return all
}

// stop stops a cluster at the end of the test.
func stop(t *testing.T, cluster *Cluster) {
	t.Helper()
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestPreparedStoreGivesTheSameCluster(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	started, err := start(t.Context(), controlPlane(t), scope, startOptions{scheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := started.waitComplete(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop(t, fresh)
	prepared, err := Start(t.Context(), controlPlane(t))
	if err != nil {
		t.Fatal(err)
	}
	stop(t, prepared)
	if store, err := preparedStore(t.Context(), controlPlane(t)); err != nil || store == "" {
		t.Fatalf("preparedStore() returned no store: %v", err)
	}
	// The controllers still write after they are ready. For example, they fill in aggregated roles.
	var differ []string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if differ = differences(contents(t, prepared), contents(t, fresh)); len(differ) == 0 {
			break
		}
	}
	if len(differ) > 0 {
		t.Errorf("a cluster with a prepared store and one without differ in %d objects:\n%s",
			len(differ), strings.Join(differ, "\n"))
	}
	if all := contents(t, prepared); all["the port of the API server"] != "true" {
		t.Error("the Service kubernetes does not have the API server's port")
	}
	if have := len(contents(t, fresh)); have < 100 {
		t.Errorf("compared %d objects, want at least 100", have)
	}
	for _, cluster := range []*Cluster{fresh, prepared} {
		trusted, err := clientOf(t, cluster).CoreV1().ConfigMaps(metav1.NamespaceSystem).
			Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ca, err := os.ReadFile(filepath.Join(cluster.Dir, "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		if trusted := trusted.Data["client-ca-file"]; strings.TrimSpace(trusted) != string(bytes.TrimSpace(ca)) {
			t.Errorf("the cluster does not trust its own certificate authority, but:\n%s", trusted)
		}
	}
}

func TestServerIsReadyBeforeControllers(t *testing.T) {
	t.Parallel()
	cluster, err := StartServer(t.Context(), controlPlane(t))
	if err != nil {
		t.Fatal(err)
	}
	stop(t, cluster)
	newConfigMap(t, clientOf(t, cluster), metav1.NamespaceDefault, metav1.ObjectMeta{Name: "at-once"})
	if _, err := cluster.waitComplete(t.Context()); err != nil || cluster.Failed() != nil {
		t.Error(err, cluster.Failed())
	}
	programs := slices.Sorted(maps.Keys(cluster.PIDs()))
	if !slices.Equal(programs, []string{"etcd", "kube-apiserver", "kube-controller-manager"}) {
		t.Errorf("running programs = %v, want etcd, kube-apiserver and kube-controller-manager", programs)
	}
}

// withoutControllers returns a control plane whose controllers end at once.
func withoutControllers(t *testing.T) *multicall.Program {
	t.Helper()
	original := controlPlane(t)
	program := &multicall.Program{Path: filepath.Join(t.TempDir(), "controlplane"), Version: original.Version}
	script := fmt.Sprintf("#!/bin/sh\n[ $1 = kube-controller-manager ] || exec '%s' \"$@\"\n"+
		"echo 'no memory'\nexit 1\n", original.Path)
	if err := os.WriteFile(program.Path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

func TestExitedControllersAreAnError(t *testing.T) {
	t.Parallel()
	const why = "kube-controller-manager has ended; the last lines of its log:\n  no memory"
	program := withoutControllers(t)
	if cluster, err := Start(t.Context(), program); cluster != nil || err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("Start() error = %v", err)
	}
	cluster, err := StartServer(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, cluster)
	<-cluster.working
	if err := cluster.Failed(); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("Failed() = %v", err)
	}
}

func TestConcurrentStartsPrepareOneStore(t *testing.T) {
	t.Parallel()
	original, dir := controlPlane(t), t.TempDir()
	program := &multicall.Program{Path: filepath.Join(dir, "controlplane"), Version: original.Version}
	copyFile(t, original.Path, program.Path)
	if err := os.MkdirAll(filepath.Join(dir, preparedPrefix+"0123456789abcdef", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	stores := make([]string, 3)
	for i := range stores {
		group.Go(func() {
			store, err := preparedStore(t.Context(), program)
			if err != nil {
				t.Error(err)
			}
			stores[i] = store
		})
	}
	group.Wait()
	have, err := filepath.Glob(filepath.Join(dir, preparedPrefix+"*[0-9a-f]"))
	if err != nil {
		t.Fatal(err)
	}
	if slices.Sort(stores); len(have) != 1 || len(slices.Compact(stores)) != 1 || stores[0] != have[0] {
		t.Errorf("stores on disk %v, stores returned %v, want the same single one", have, stores)
	}
}

func TestOutdatedStoresAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const lock = preparedPrefix + "stores.lock"
	for _, name := range []string{
		preparedPrefix + "0123456789abcdef",
		preparedPrefix + "aaaaaaaaaaaaaaaa.removed",
		preparedPrefix + "fedcba9876543210.new",
		lock,
	} {
		if err := os.MkdirAll(filepath.Join(dir, name, "member"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeStores(dir); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != lock {
		t.Errorf("the folder contains %v, %v; want only %s", left, err, lock)
	}
}

func TestStartWithoutWritePermissionSkipsPreparedStore(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&os.PathError{Op: "open", Err: os.ErrPermission},
		fmt.Errorf("copying: %w", os.ErrPermission),
	} {
		if got := ignoreUnwritable(err); got != nil {
			t.Errorf("ignoreUnwritable(%v) = %v, want nil", err, got)
		}
	}
	if ignoreUnwritable(os.ErrNotExist) == nil {
		t.Error("ignoreUnwritable(os.ErrNotExist) = nil, want an error")
	}
}

func TestRemovedStoreIsNotTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, to := filepath.Join(dir, "store"), filepath.Join(dir, dataDir)
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(store, "1"), []byte("copied first"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A file that is removed after its folder was listed, like the target of this link, can't be opened.
	if err := os.Symlink("removed", filepath.Join(store, "2")); err != nil {
		t.Fatal(err)
	}
	if taken, err := takeStore(store, to); taken || err != nil {
		t.Errorf("takeStore() = %t, %v; want false", taken, err)
	}
	if exists(to) {
		t.Error("a part of the store was left in the run folder")
	}
}

func TestUsedOfKeepsSegmentEnd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ used, size, want int }{
		{0, 64 << 10, 4096},
		{1, 64 << 10, 4096},
		{4095, 64 << 10, 4096},
		{4096, 64 << 10, 8192},
		{64 << 10, 64 << 10, 64 << 10},
		{10, 100, 100},
	} {
		segment := append(bytes.Repeat([]byte{1}, test.used), make([]byte, test.size-test.used)...)
		if got := usedOf(segment); got != test.want {
			t.Errorf("usedOf(%d bytes with %d used) = %d, want %d", test.size, test.used, got, test.want)
		}
	}
}
