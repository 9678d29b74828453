// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package deployed

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/stage/stagetest"
)

func TestMain(m *testing.M) { os.Exit(stagetest.Main(m)) }

const documents = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cups.test.example.com}
spec:
  group: test.example.com
  names: {kind: Cup, listKind: CupList, plural: cups, singular: cup}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
---
---
apiVersion: test.example.com/v1
kind: Cup
metadata: {name: small, labels: {of: us}}
spec: {size: 3}
---
# nothing
---
apiVersion: v1
kind: ConfigMap
metadata: {name: menu}
data: {ice: lemon}
`

func TestManifestsSkipEmptyDocuments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deploy.yaml")
	if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
		t.Fatal(err)
	}
	suite := &check.Suite{}
	suite.Manifests = file
	objects, err := Manifests(suite)
	if err != nil || len(objects) != 3 {
		t.Fatalf("Manifests() returned %d objects, error = %v, want 3", len(objects), err)
	}
	if found := Of(objects, "Cup", "ConfigMap"); len(found) != 2 ||
		found[0].GetName() != "small" || found[1].GetName() != "menu" {
		t.Errorf("Of() for two kinds = %v", found)
	}
	if found := Without(objects, "Cup", "ConfigMap"); len(found) != 1 ||
		found[0].GetName() != "cups.test.example.com" || len(objects) != 3 {
		t.Errorf("Without() two kinds = %v of %d", found, len(objects))
	}
	if _, err := Read([]byte("a: [")); err == nil {
		t.Error("Read() of invalid YAML: error = nil")
	}
	suite.Manifests = file + ".not"
	if _, err := Manifests(suite); err == nil {
		t.Error("Manifests() of a missing file: error = nil")
	}
}

// open starts a cluster for the test, and returns it with a suite that uses it.
func open(t *testing.T) (*Cluster, *check.Suite) {
	t.Helper()
	suite := &check.Suite{}
	suite.Config = stagetest.Cluster(t).Config()
	cluster, err := Open(suite)
	if err != nil {
		t.Fatal(err)
	}
	return cluster, suite
}

func TestApply(t *testing.T) {
	c, suite := open(t)
	objects, err := Read([]byte(documents))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a definition is served before its objects come", func(t *testing.T) {
		if err := c.Apply(t.Context(), Without(objects, "CustomResourceDefinition")...); !isRefused(err, "Cup small") {
			t.Errorf("Apply() without the kind: error = %v", err)
		}
		for _, moment := range []string{"at first", "again"} {
			if err := c.Apply(t.Context(), objects...); err != nil {
				t.Fatalf("%s: %v", moment, err)
			}
		}
		client, err := c.Resource(objects[1])
		if err != nil {
			t.Fatal(err)
		}
		cup, err := client.Get(t.Context(), "small", metav1.GetOptions{})
		if err != nil || cup.GetNamespace() != "default" ||
			cup.GetLabels()["of"] != "us" || cup.GetLabels()[existing.Label] != "true" {
			t.Errorf("Get() = %v, %v", cup, err)
		}
		if objects[1].GetLabels()[existing.Label] != "" {
			t.Error("the caller's object was changed")
		}
	})
	t.Run("what the API server refuses is the submission's fault", func(t *testing.T) {
		for what, yaml := range map[string]string{
			"ConfigMap a":    "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, date: {a: b}}",
			"ConfigMap b":    "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: nowhere}}",
			"Service c":      "{apiVersion: v1, kind: Service, metadata: {name: c}, spec: {ports: [{port: 0}]}}",
			"Issuer d":       "{apiVersion: cert-manager.io/v1, kind: Issuer, metadata: {name: d}}",
			"Cup with-words": "{apiVersion: test.example.com/v1, kind: Cup, metadata: {name: with-words}, spec: {size: big}}",
		} {
			wrong, err := Read([]byte(yaml))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Apply(t.Context(), wrong...); !isRefused(err, what) {
				t.Errorf("%s: error = %v", what, err)
			}
		}
	})
	t.Run("in a cluster of others their objects stay", func(t *testing.T) {
		if _, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Data: map[string]string{"ice": "mango"},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		suite.Shared = true
		shared, err := Open(suite)
		if err != nil {
			t.Fatal(err)
		}
		theirs := Of(objects, "ConfigMap")[0].DeepCopy()
		theirs.SetName("theirs")
		err = shared.Apply(t.Context(), theirs)
		if foreign, ok := errors.AsType[*install.ForeignObjectError](err); !ok || foreign.Object != "the ConfigMap theirs" {
			t.Errorf("Apply() over a foreign object: error = %v", err)
		}
		configMap, err := c.Client.CoreV1().ConfigMaps("default").Get(t.Context(), "theirs", metav1.GetOptions{})
		if err != nil || configMap.Data["ice"] != "mango" {
			t.Errorf("the foreign object = %v, error = %v", configMap, err)
		}
		if err := shared.Apply(t.Context(), objects...); err != nil {
			t.Errorf("Apply() over our own object: error = %v", err)
		}
	})
	t.Run("Pods and their evidence", func(t *testing.T) { pods(t, c) })
}

func isRefused(err error, object string) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	return ok && refused.Object == object && strings.Contains(err.Error(), object)
}

// pods creates two Pods of a Deployment that no kubelet runs, and a Pod that does not belong to it.
func pods(t *testing.T, c *Cluster) {
	t.Helper()
	labels := map[string]string{"app": "shop"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	if lines := c.Evidence(t.Context(), deployment); len(lines) != 1 || lines[0] != "the Deployment shop has no Pod" {
		t.Errorf("Evidence() without Pods = %q", lines)
	}
	for name, podLabels := range map[string]map[string]string{"shop-a": labels, "leaves": labels, "stranger": nil} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: podLabels},
			Spec:       corev1.PodSpec{NodeName: "nowhere", Containers: []corev1.Container{{Name: "main", Image: "shop"}}},
		}
		if name == "leaves" {
			pod.Finalizers = []string{"test.example.com/stays"}
		}
		if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	atOnce := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	if err := c.Client.CoreV1().Pods("default").Delete(t.Context(), "leaves", atOnce); err != nil {
		t.Fatal(err)
	}
	if found, err := c.Pods(t.Context(), deployment); err != nil || len(found) != 1 || found[0].Name != "shop-a" {
		t.Errorf("Pods() = %v, %v", found, err)
	}
	if found, err := c.All(t.Context(), deployment); err != nil || len(found) != 2 {
		t.Errorf("All() returned %d Pods, error = %v", len(found), err)
	}
	if _, err := c.Client.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "shop-a.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "shop-a"},
		Reason:         "FailedMount", Message: `secret "cert" not found`,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Join(c.Evidence(t.Context(), deployment), "\n")
	if !strings.Contains(lines, "Pod shop-a: phase Pending") ||
		!strings.Contains(lines, `Event FailedMount: secret "cert" not found`) {
		t.Errorf("Evidence() = %s", lines)
	}
}

// TestEvidenceLimitsLog checks the evidence of a Pod that logs an endless line. The kubelet returns only as much of it
// as the request asks for.
func TestEvidenceLimitsLog(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/default/pods", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"PodList",
			"items":[{"metadata":{"name":"shop-a","namespace":"default"}}]}`)
	})
	mux.HandleFunc("GET /api/v1/namespaces/default/pods/shop-a/log", func(w http.ResponseWriter, r *http.Request) {
		size := 64 << 20
		if limit, err := strconv.Atoi(r.URL.Query().Get("limitBytes")); err == nil {
			size = limit
		}
		_, _ = io.WriteString(w, strings.Repeat("x", size))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Client: client}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default"}}
	lines := c.Evidence(t.Context(), deployment)
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "xxx") || len(last) > logLimit {
		t.Errorf("Evidence() has %d lines, and the last one has %d bytes", len(lines), len(last))
	}
}

func TestPodState(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if Waiting(pod) != "" {
		t.Error("a Pod without a status waits")
	}
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason:  "CrashLoopBackOff",
		Message: "back-off 10s",
	}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 2}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "one", Ready: true},
		{Name: "two", State: waits, RestartCount: 3},
		{Name: "three", State: ended},
		{Name: "four", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
	if Waiting(pod) != "CrashLoopBackOff" {
		t.Errorf("Waiting() = %q", Waiting(pod))
	}
	want := "Pod a: phase Running, two waiting (CrashLoopBackOff: back-off 10s), 3 restarts, " +
		"three terminated (Error, exit code 2), four runs and is not ready"
	if got := Describe(pod); got != want {
		t.Errorf("Describe() = %q, want %q", got, want)
	}
}

func TestQuickReadinessKeepsOtherProbes(t *testing.T) {
	slow := func() *corev1.Probe { return &corev1.Probe{PeriodSeconds: 10, InitialDelaySeconds: 5} }
	deployment := &appsv1.Deployment{}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{}, {ReadinessProbe: slow(), LivenessProbe: slow()}}
	QuickReadiness(deployment)
	container := deployment.Spec.Template.Spec.Containers[1]
	if container.ReadinessProbe.PeriodSeconds != 1 || container.ReadinessProbe.InitialDelaySeconds != 0 {
		t.Errorf("readiness probe = %v", container.ReadinessProbe)
	}
	if container.LivenessProbe.PeriodSeconds != 10 || container.LivenessProbe.InitialDelaySeconds != 5 {
		t.Errorf("liveness probe = %v", container.LivenessProbe)
	}
}

func TestInvalidDeploymentIsNamed(t *testing.T) {
	objects, err := Read([]byte("{apiVersion: apps/v1, kind: Deployment, metadata: {name: shop}, spec: {replicas: 2}}\n" +
		"---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: shop}, spec: {replicas: many}}"))
	if err != nil {
		t.Fatal(err)
	}
	if deployment, err := Deployment(objects[0]); err != nil || *deployment.Spec.Replicas != 2 {
		t.Errorf("Deployment() = %v, %v", deployment, err)
	}
	if _, err := Deployment(objects[1]); err == nil || !strings.Contains(err.Error(), "Deployment shop") {
		t.Errorf("Deployment() of another kind: error = %v", err)
	}
}
