// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/certificates"
)

// The tests of this file share a cluster. Each uses a namespace of its own, or only reads.

func newNamespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

func newConfigMap(
	t *testing.T, client kubernetes.Interface, namespace string, meta metav1.ObjectMeta,
) *corev1.ConfigMap {
	t.Helper()
	configMap, err := client.CoreV1().ConfigMaps(namespace).Create(
		t.Context(), &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	return configMap
}

func TestStartedClusterHasDefaultObjects(t *testing.T) {
	t.Parallel()
	client := clientOf(t, sharedCluster(t))
	for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic} {
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(
		t.Context(), "default", metav1.GetOptions{},
	); err != nil {
		t.Error(err)
	}
	if _, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(
		t.Context(), "kubernetes", metav1.GetOptions{},
	); err != nil {
		t.Error(err)
	}
}

func TestControllersAndSchedulerWork(t *testing.T) {
	t.Parallel()
	client := clientOf(t, sharedCluster(t))
	namespace := newNamespace(t, client)
	labels := map[string]string{"app": "web"}
	if _, err := client.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment has a ReplicaSet", func() (bool, error) {
		sets, err := client.AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(sets.Items) == 1 && sets.Items[0].OwnerReferences[0].Name == "web", err
	})
	eventually(t, "the scheduler has found no node for the Pod", func() (bool, error) {
		pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 {
			return false, err
		}
		return slices.ContainsFunc(pods.Items[0].Status.Conditions, func(condition corev1.PodCondition) bool {
			return condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable
		}), nil
	})
}

func TestGarbageCollectorDeletesOwnedObjects(t *testing.T) {
	t.Parallel()
	client := clientOf(t, sharedCluster(t))
	namespace := newNamespace(t, client)
	owner := newConfigMap(t, client, namespace, metav1.ObjectMeta{Name: "owner"})
	newConfigMap(t, client, namespace, metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
	}})
	if err := client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the owned object is gone", func() (bool, error) {
		_, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "owned", metav1.GetOptions{})
		exists, err := found(err)
		return !exists && err == nil, err
	})
}

func TestNamespaceIsDeletedWithItsContents(t *testing.T) {
	t.Parallel()
	client := clientOf(t, sharedCluster(t))
	namespace := newNamespace(t, client)
	newConfigMap(t, client, namespace, metav1.ObjectMeta{Name: "content"})
	if err := client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func() (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		exists, err := found(err)
		return !exists && err == nil, err
	})
}

func TestServerAndKubectlReportTheirVersion(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	program := controlPlane(t)
	if program.Version != "v1.36.3" || cluster.Version != program.Version {
		t.Errorf("program version %s, cluster version %s, want v1.36.3 for both", program.Version, cluster.Version)
	}
	server, err := clientOf(t, cluster).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if server.GitVersion != program.Version || server.Major != "1" || server.Minor != "36" {
		t.Errorf("server version %s (%s, %s), want %s (1, 36)",
			server.GitVersion, server.Major, server.Minor, program.Version)
	}
	kubectl := exec.Command(program.Path, "kubectl", "version", "--output=json")
	kubectl.Env = []string{"KUBECONFIG=" + cluster.Kubeconfig, "HOME=" + t.TempDir()}
	output, err := kubectl.Output()
	if err != nil {
		t.Fatal(err)
	}
	var versions struct{ ClientVersion, ServerVersion struct{ GitVersion string } }
	if err := json.Unmarshal(output, &versions); err != nil {
		t.Fatal(err)
	}
	if versions.ClientVersion.GitVersion != program.Version || versions.ServerVersion.GitVersion != program.Version {
		t.Errorf("kubectl version = %+v, want %s for client and server", versions, program.Version)
	}
}

func TestUnauthenticatedRequestsAreRejected(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	status := func(config *rest.Config, path string) int {
		t.Helper()
		transport, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.Get(cluster.Host() + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	stranger := rest.AnonymousClientConfig(cluster.Config())
	token := rest.CopyConfig(stranger)
	token.BearerToken = "made-up"
	authority, err := certificates.NewAuthority("operator-labs")
	if err != nil {
		t.Fatal(err)
	}
	forged, err := authority.Client("operator-labs-admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	forger := rest.CopyConfig(stranger)
	forger.CertData, forger.KeyData = forged.Certificate, forged.Key
	for name, config := range map[string]*rest.Config{
		"no certificate": stranger, "a made-up token": token, "another authority's certificate": forger,
	} {
		for _, path := range []string{"/api/v1/namespaces", "/version", "/readyz", "/metrics"} {
			if got := status(config, path); got != http.StatusUnauthorized {
				t.Errorf("%s: GET %s returned status %d, want 401", name, path, got)
			}
		}
	}
	if got := status(cluster.Config(), "/api/v1/namespaces"); got != http.StatusOK {
		t.Errorf("GET as administrator returned status %d, want 200", got)
	}
}

func TestServiceAccountTokenHasNoPermissions(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	client := clientOf(t, cluster)
	token, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(cluster.Config())
	config.BearerToken = token.Status.Token
	account, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = account.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:default:default") {
		t.Errorf("List() error = %v, want Forbidden for the ServiceAccount default", err)
	}
}

func TestRunFolderIsPrivate(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	files := 0
	if err := filepath.WalkDir(cluster.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files++
		// A socket can only be reached through its folder. etcd chooses the mode of the socket itself.
		if info.Mode().Perm()&0o077 != 0 && info.Mode().Type() != fs.ModeSocket {
			t.Errorf("%s has mode %s, want no permissions for other users", path, info.Mode())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if files < 15 {
		t.Errorf("found %d files, want at least 15", files)
	}
}

// auditEvent has the fields of a line of the audit log that the tests check.
type auditEvent struct {
	Verb, RequestURI, Stage, Level string
	User                           struct{ Username string }
	ResponseStatus                 struct{ Code int }
	ObjectRef                      struct{ Resource, Name, APIGroup string }
	RequestObject, ResponseObject  json.RawMessage
}

func auditEvents(t *testing.T, cluster *Cluster) (events []auditEvent) {
	t.Helper()
	content, err := os.ReadFile(cluster.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue // being written
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("parsing the audit event %s: %v", line, err)
		}
		events = append(events, event)
	}
	return events
}

func findEvent(events []auditEvent, verb, resource, name string) (auditEvent, bool) {
	i := slices.IndexFunc(events, func(e auditEvent) bool {
		return e.Verb == verb && e.ObjectRef.Resource == resource && e.ObjectRef.Name == name
	})
	if i < 0 {
		return auditEvent{}, false
	}
	return events[i], true
}

func TestAuditLogRecordsCreation(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	client := clientOf(t, cluster)
	namespace := newNamespace(t, client)
	newConfigMap(t, client, namespace, metav1.ObjectMeta{Name: namespace + "-logged"})
	event, ok := findEvent(auditEvents(t, cluster), "create", "configmaps", namespace+"-logged")
	if !ok {
		t.Fatal("the audit log lacks the creation")
	}
	if event.User.Username != "operator-labs-admin" || event.ResponseStatus.Code != http.StatusCreated ||
		event.Stage != "ResponseComplete" || event.Level != "Metadata" {
		t.Errorf("audit event = %+v, want code 201 for operator-labs-admin at level Metadata", event)
	}
}

func TestAuditLogIsWrittenBeforeTheResponse(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	client := clientOf(t, cluster)
	namespace := newNamespace(t, client)
	// Many requests run at a time, so that a log that is written later would lag behind.
	const workers, each = 10, 20
	var sizes [workers][each]int64 // of the log when the answer arrived
	var creating sync.WaitGroup
	for worker := range workers {
		creating.Go(func() {
			for i := range each {
				configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d-%d", namespace, worker, i)}}
				if _, err := client.CoreV1().ConfigMaps(namespace).Create(
					t.Context(), configMap, metav1.CreateOptions{},
				); err != nil {
					t.Error(err)
					return
				}
				info, err := os.Stat(cluster.AuditLog)
				if err != nil {
					t.Error(err)
					return
				}
				sizes[worker][i] = info.Size()
			}
		})
	}
	creating.Wait()
	if t.Failed() {
		t.FailNow()
	}
	content, err := os.ReadFile(cluster.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	for worker := range workers {
		for i := range each {
			at := bytes.Index(content, fmt.Appendf(nil, `"name":"%s-%d-%d"`, namespace, worker, i))
			if at < 0 || int64(at) > sizes[worker][i] {
				t.Errorf("request %d of worker %d is at offset %d of the log, which had %d bytes when it was answered",
					i, worker, at, sizes[worker][i])
			}
		}
	}
}

func TestAuditLogHasBodiesOfCourseKindsOnly(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	client := clientOf(t, cluster)
	raw := client.RESTClient()
	const definition = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": {"name": "auditeds.demo.lva.io"}, "spec": {"group": "demo.lva.io", "scope": "Cluster",
		"names": {"plural": "auditeds", "kind": "Audited"}, "versions": [{"name": "v1", "served": true, "storage": true,
		"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`
	post := func(path, body string) error {
		return raw.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).
			Do(t.Context()).Error()
	}
	if err := post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new kind is served", func() (bool, error) {
		return found(post("/apis/demo.lva.io/v1/auditeds",
			`{"apiVersion": "demo.lva.io/v1", "kind": "Audited", "metadata": {"name": "one"}, "spec": {"colour": "green"}}`))
	})
	for _, path := range []string{"/apis/demo.lva.io/v1/auditeds", "/readyz", "/version"} {
		if err := raw.Get().AbsPath(path).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	events := auditEvents(t, cluster)
	i := slices.IndexFunc(events, func(e auditEvent) bool {
		return e.Verb == "create" && e.ObjectRef.Resource == "auditeds" && e.ResponseStatus.Code == http.StatusCreated
	})
	if i < 0 {
		t.Fatal("the audit log lacks the creation of an object of the course's group")
	}
	if created := events[i]; !bytes.Contains(created.RequestObject, []byte("green")) ||
		!bytes.Contains(created.ResponseObject, []byte("green")) ||
		bytes.Contains(created.ResponseObject, []byte("managedFields")) {
		t.Errorf("logged request %s and response %s of the creation", created.RequestObject, created.ResponseObject)
	}
	if listed, ok := findEvent(events, "list", "auditeds", ""); !ok || listed.ResponseObject != nil {
		t.Errorf("list logged: %t, with content %s; want it logged without content", ok, listed.ResponseObject)
	}
	for _, event := range events {
		if strings.HasPrefix(event.RequestURI, "/readyz") || strings.HasPrefix(event.RequestURI, "/version") ||
			strings.HasPrefix(event.User.Username, "system:kube-") || event.User.Username == "system:apiserver" {
			t.Errorf("the audit log contains the request of %s for %s, want it left out", event.User.Username, event.RequestURI)
		}
		if event.ObjectRef.APIGroup != "demo.lva.io" && event.RequestObject != nil {
			t.Errorf("the audit log contains the content of %s %s, want metadata only",
				event.ObjectRef.Resource, event.ObjectRef.Name)
		}
	}
}
