// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/multicall"
)

// cluster is shared by all tests. Each test has its own students.
var cluster struct {
	sync.Mutex
	*embedded.Cluster
}

func TestMain(m *testing.M) {
	code := m.Run()
	if cluster.Cluster != nil {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func root(tb testing.TB) string {
	tb.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		tb.Fatal(err)
	}
	return root
}

// admin returns an administrator's access to a real API server, on which the course's kind is installed.
func admin(tb testing.TB) *rest.Config {
	tb.Helper()
	cluster.Lock()
	defer cluster.Unlock()
	if cluster.Cluster != nil {
		return cluster.Config()
	}
	program, err := multicall.New(root(tb))
	if err != nil {
		tb.Fatal(err)
	}
	if err := program.Ensure(tb.Context(), nil); err != nil {
		tb.Fatal(err)
	}
	started, err := embedded.Start(context.Background(), program) // not the test's context: the cluster outlives the test
	if err != nil {
		tb.Fatal(err)
	}
	cluster.Cluster = started
	installIcecreams(tb, started.Config())
	return started.Config()
}

func installIcecreams(tb testing.TB, config *rest.Config) {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(
		root(tb), "solutions/02-reconciler/config/crd/bases/demo.lva.io_icecreams.yaml",
	))
	if err != nil {
		tb.Fatal(err)
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &definition.Object); err != nil {
		tb.Fatal(err)
	}
	client := dynamicClient(tb, config)
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	if _, err := definitions.Create(tb.Context(), definition, metav1.CreateOptions{}); err != nil {
		tb.Fatal(err)
	}
	eventually(tb, "icecreams are served", func() error {
		_, err := client.Resource(icecreams).List(tb.Context(), metav1.ListOptions{})
		return err
	})
}

var icecreams = schema.GroupVersionResource{Group: "demo.lva.io", Version: "v1", Resource: "icecreams"}

func icecream(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.lva.io/v1", "kind": "Icecream", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"flavour": []any{"vanilla"}},
	}}
}

func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func dynamicClient(tb testing.TB, config *rest.Config) *dynamic.DynamicClient {
	tb.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// eventually calls try until it returns no error.
func eventually(tb testing.TB, what string, try func() error) {
	tb.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			tb.Fatalf("timed out after a minute: %s: %v", what, err)
		}
	}
}

func newClass(t *testing.T) *Class {
	t.Helper()
	return &Class{Config: admin(t), Out: filepath.Join(t.TempDir(), "class")}
}

func students(names ...string) (students []Student) {
	for i, name := range names {
		students = append(students, Student{Name: name, Line: i + 1})
	}
	return students
}

func invite(t *testing.T, class *Class, names ...string) []Invited {
	t.Helper()
	invited, err := class.Invite(t.Context(), students(names...))
	if err != nil {
		t.Fatal(err)
	}
	return invited
}

// as returns the student's access, which uses only the kubeconfig that was handed out.
func as(t *testing.T, invited Invited) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", invited.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func pod(name string, change func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "operator"}}},
	}
	if change != nil {
		change(&p.Spec)
	}
	return p
}

func service(change func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	change(&s.Spec)
	return s
}

func TestInviteIsIdempotent(t *testing.T) {
	t.Parallel()
	class := newClass(t)
	first := invite(t, class, "ida", "ivan")
	administrator := client(t, class.Config)
	versions := func() (versions []string) {
		t.Helper()
		for _, name := range []string{"student-ida", "student-ivan"} {
			quota, err := administrator.CoreV1().ResourceQuotas(name).Get(t.Context(), "student", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			role, err := administrator.RbacV1().Roles(name).Get(t.Context(), "student", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			binding, err := administrator.RbacV1().ClusterRoleBindings().Get(t.Context(),
				"operator-labs-student:"+strings.TrimPrefix(name, "student-"), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			versions = append(versions, fmt.Sprint(quota.Generation, quota.Spec), role.ResourceVersion, binding.ResourceVersion)
		}
		return versions
	}
	before := versions()
	content, err := os.ReadFile(first[0].Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if !first[0].New || !strings.Contains(string(content), "# The account of ida on the class's cluster") {
		t.Errorf("the first kubeconfig =\n%s", content)
	}
	if err := os.Chmod(first[0].Kubeconfig, 0o644); err != nil {
		t.Fatal(err)
	}
	again := invite(t, class, "ida", "ivan", "igor")
	if again[0].New || again[1].New || !again[2].New {
		t.Errorf("new kubeconfigs: %v, %v, %v; want one for igor only", again[0].New, again[1].New, again[2].New)
	}
	// A token's expiry has a resolution of one second.
	if d := again[0].Expires.Sub(first[0].Expires); d.Abs() > time.Second {
		t.Errorf("the second kubeconfig expires %s later than the first", d)
	}
	if got := fmt.Sprint(versions()); got != fmt.Sprint(before) {
		t.Errorf("objects were changed: got\n%s\nwant\n%s", got, before)
	}
	after, err := os.ReadFile(first[0].Kubeconfig)
	if err != nil || string(after) != string(content) {
		t.Errorf("the kubeconfig was changed (%v)", err)
	}
	if mode := modeOf(t, first[0].Kubeconfig); mode != 0o600 {
		t.Errorf("the kubeconfig has mode %o", mode)
	}
	if mode := modeOf(t, class.Out); mode != 0o700 {
		t.Errorf("the folder has mode %o", mode)
	}

	class.Renew = true
	if renewed := invite(t, class, "ida"); !renewed[0].New {
		t.Error("the kubeconfig was not renewed with Renew set")
	}
	class.Renew = false
	// A kubeconfig for another server must be replaced.
	class.Server = "https://kubernetes.default.svc"
	if moved := invite(t, class, "ida"); !moved[0].New || as(t, moved[0]).Host != class.Server {
		t.Error("the kubeconfig does not have the new server")
	}
}

func modeOf(t *testing.T, file string) os.FileMode {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestKubeconfigExpiry(t *testing.T) {
	t.Parallel()
	class := newClass(t)
	class.Lifetime = 20 * time.Minute
	invited := invite(t, class, "eve")[0]
	if left := time.Until(invited.Expires); left < 19*time.Minute || left > 20*time.Minute {
		t.Errorf("the kubeconfig expires in %s", left)
	}
	server := &clientcmdapi.Cluster{Server: class.Config.Host, CertificateAuthorityData: class.Config.CAData}
	if expires, ok := validUntil(invited.Kubeconfig, server, uidOf(t, class, "eve")); !ok ||
		expires.Sub(invited.Expires).Abs() > time.Second {
		t.Errorf("the token expires at %s, %t", expires, ok)
	}
	// A kubeconfig is kept while more than half of Lifetime is left. Here nearly all of the twenty minutes are left.
	if again := invite(t, class, "eve")[0]; again.New {
		t.Error("the kubeconfig was renewed at once")
	}
	class.Lifetime = time.Hour
	if again := invite(t, class, "eve")[0]; !again.New {
		t.Error("a kubeconfig with twenty minutes left was kept, want a new one for half an hour")
	}
}

func uidOf(t *testing.T, class *Class, name string) types.UID {
	t.Helper()
	account, err := client(t, class.Config).CoreV1().ServiceAccounts(accounts).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return account.UID
}
