// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/multicall"
)

// cluster is that of all tests. Each has students of its own.
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

// admin is the administrator of a real API server, on which the course's kind is installed.
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
	started, err := embedded.Start(context.Background(), program) // not the test's: it outlives the test
	if err != nil {
		tb.Fatal(err)
	}
	cluster.Cluster = started
	installIcecreams(tb, started.Config())
	return started.Config()
}

func installIcecreams(tb testing.TB, config *rest.Config) {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(root(tb), "solutions/02-reconciler/config/crd/bases/demo.lva.io_icecreams.yaml"))
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

// eventually tries until there is no error.
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
			tb.Fatalf("not within a minute: %s: %v", what, err)
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

// as is the student, with nothing but the kubeconfig that was handed out.
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
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	change(&s.Spec)
	return s
}

func TestAStudentCanWork(t *testing.T) {
	t.Parallel()
	class := newClass(t)
	invited := invite(t, class, "ada")[0]
	if err := Try(t.Context(), invited); err != nil {
		t.Fatal(err)
	}
	config := as(t, invited)
	ada, namespace := client(t, config), "student-ada"

	// The namespace is that of the context: kubectl needs no -n.
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: invited.Kubeconfig}, nil)
	if got, _, err := loaded.Namespace(); err != nil || got != namespace {
		t.Errorf("the kubeconfig's namespace is %q, %v", got, err)
	}
	// A Deployment that says nothing of resources gets its Pod through quota, limits and Pod security.
	labels := map[string]string{"app": "operator"}
	_, err := ada.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("", nil).Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment has its Pod", func() error {
		pods, err := ada.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) != 1 {
			err = errors.New("there is none")
		}
		if err == nil && pods.Items[0].Spec.Containers[0].Resources.Limits.Memory().String() != "128Mi" {
			t.Errorf("it has the limits %v", pods.Items[0].Spec.Containers[0].Resources.Limits)
		}
		return err
	})
	for what, do := range map[string]func() error{
		"a NodePort": func() error {
			_, err := ada.CoreV1().Services(namespace).Create(t.Context(),
				service(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }), metav1.CreateOptions{})
			return err
		},
		"a look at the own namespace": func() error {
			_, err := ada.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
			return err
		},
		"a look at the quota": func() error {
			_, err := ada.CoreV1().ResourceQuotas(namespace).List(t.Context(), metav1.ListOptions{})
			return err
		},
		"an operator's role, as leader election needs it": func() error {
			_, err := ada.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Name: "leader-election"},
				Rules: []rbacv1.PolicyRule{
					{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
					{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
				},
			}, metav1.CreateOptions{})
			return err
		},
		"an icecream of the own name": func() error {
			_, err := dynamicClient(t, config).Resource(icecreams).Create(t.Context(), icecream("ada.cup"), metav1.CreateOptions{})
			return err
		},
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	// The operator that runs as a Pod has an account in the namespace.
	token, err := ada.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	operator := rest.AnonymousClientConfig(config)
	operator.BearerToken = token.Status.Token
	shop := dynamicClient(t, operator).Resource(icecreams)
	if _, err := shop.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the operator's account lists the icecreams: %v", err)
	}
	cup, err := shop.Get(t.Context(), "ada.cup", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cup.Object["status"] = map[string]any{"soldOut": false, "toppingsCount": int64(0)}
	if _, err := shop.UpdateStatus(t.Context(), cup, metav1.UpdateOptions{}); err != nil {
		t.Errorf("the operator's account updates a status: %v", err)
	}
}

// A student with the issued kubeconfig must not be allowed these requests.
func TestAStudentIsRefused(t *testing.T) {
	t.Parallel()
	class := newClass(t)
	both := invite(t, class, "mallory", "mallory-b", "victim")
	config := as(t, both[0])
	mallory, own, dynamicMallory := client(t, config), "student-mallory", dynamicClient(t, config)
	administrator := dynamicClient(t, class.Config)
	for _, name := range []string{"victim.cup", "mallory-b.cup", "shop"} {
		if _, err := administrator.Resource(icecreams).Create(t.Context(), icecream(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	token, err := mallory.CoreV1().ServiceAccounts(own).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	operator := rest.AnonymousClientConfig(config)
	operator.BearerToken = token.Status.Token
	create, del, get, list := metav1.CreateOptions{}, metav1.DeleteOptions{}, metav1.GetOptions{}, metav1.ListOptions{}
	privileged := func(s *corev1.PodSpec) {
		s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	}
	everything := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	adminRef := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	ctx := t.Context()
	for _, test := range []struct {
		what string
		do   func() error
		// want is in the refusal. Default: it is forbidden by RBAC, which says "cannot".
		want string
	}{
		{what: "look into another's namespace", do: func() error {
			_, err := mallory.CoreV1().Pods("student-victim").List(ctx, list)
			return err
		}},
		{what: "read another's Secrets", do: func() error { _, err := mallory.CoreV1().Secrets("student-victim").List(ctx, list); return err }},
		{what: "run something in another's namespace", do: func() error {
			_, err := mallory.CoreV1().Pods("student-victim").Create(ctx, pod("x", nil), create)
			return err
		}},
		{what: "delete another's namespace", do: func() error { return mallory.CoreV1().Namespaces().Delete(ctx, "student-victim", del) }},
		{what: "list who is in the class", do: func() error { _, err := mallory.CoreV1().Namespaces().List(ctx, list); return err }},
		{what: "list the accounts", do: func() error { _, err := mallory.CoreV1().ServiceAccounts(accounts).List(ctx, list); return err }},
		{what: "make a token of another", do: func() error {
			_, err := mallory.CoreV1().ServiceAccounts(accounts).CreateToken(ctx, "victim", &authenticationv1.TokenRequest{}, create)
			return err
		}},
		{what: "prolong the own access", do: func() error {
			_, err := mallory.CoreV1().ServiceAccounts(accounts).CreateToken(ctx, "mallory", &authenticationv1.TokenRequest{}, create)
			return err
		}},
		{what: "make a token that never expires", do: func() error {
			_, err := mallory.CoreV1().Secrets(accounts).Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "forever", Annotations: map[string]string{corev1.ServiceAccountNameKey: "mallory"}},
				Type:       corev1.SecretTypeServiceAccountToken,
			}, create)
			return err
		}},
		{what: "read Secrets of the system", do: func() error { _, err := mallory.CoreV1().Secrets("kube-system").List(ctx, list); return err }},
		{what: "read all Secrets", do: func() error { _, err := mallory.CoreV1().Secrets("").List(ctx, list); return err }},
		{what: "make a namespace without limits", do: func() error {
			_, err := mallory.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, create)
			return err
		}},
		{what: "take the limits off the own namespace", do: func() error {
			return mallory.CoreV1().ResourceQuotas(own).DeleteCollection(ctx, del, list)
		}},
		{what: "take the LimitRange away", do: func() error { return mallory.CoreV1().LimitRanges(own).Delete(ctx, "student", del) }},
		{what: "take the network policy away", do: func() error {
			return mallory.NetworkingV1().NetworkPolicies(own).Delete(ctx, "student", del)
		}},
		{what: "allow privileged Pods", do: func() error {
			namespace, err := mallory.CoreV1().Namespaces().Get(ctx, own, get)
			if err != nil {
				return fmt.Errorf("it can't even be read: %w", err)
			}
			namespace.Labels["pod-security.kubernetes.io/enforce"] = "privileged"
			_, err = mallory.CoreV1().Namespaces().Update(ctx, namespace, metav1.UpdateOptions{})
			return err
		}},
		{what: "run a privileged Pod", want: "violates PodSecurity", do: func() error {
			_, err := mallory.CoreV1().Pods(own).Create(ctx, pod("x", privileged), create)
			return err
		}},
		{what: "read the host's files", want: "violates PodSecurity", do: func() error {
			_, err := mallory.CoreV1().Pods(own).Create(ctx, pod("x", func(s *corev1.PodSpec) {
				s.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
			}), create)
			return err
		}},
		{what: "use the host's network", want: "violates PodSecurity", do: func() error {
			_, err := mallory.CoreV1().Pods(own).Create(ctx, pod("x", func(s *corev1.PodSpec) { s.HostNetwork = true }), create)
			return err
		}},
		{what: "be more important than the others", want: "exceeded quota: student-priority", do: func() error {
			_, err := mallory.CoreV1().Pods(own).Create(ctx,
				pod("x", func(s *corev1.PodSpec) { s.PriorityClassName = "system-cluster-critical" }), create)
			return err
		}},
		{what: "catch what others send to an address", want: "would catch what others send", do: func() error {
			_, err := mallory.CoreV1().Services(own).Create(ctx,
				service(func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"192.0.2.1"} }), create)
			return err
		}},
		{what: "get a load balancer", want: "exceeded quota: student", do: func() error {
			_, err := mallory.CoreV1().Services(own).Create(ctx,
				service(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer }), create)
			return err
		}},
		{what: "lead a Service to any address", do: func() error {
			//nolint:staticcheck // endpoints are deprecated, and an attacker does not mind
			_, err := mallory.CoreV1().Endpoints(own).Create(ctx, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, create)
			return err
		}},
		{what: "look at the nodes", do: func() error { _, err := mallory.CoreV1().Nodes().List(ctx, list); return err }},
		{what: "register a webhook", do: func() error {
			_, err := dynamicMallory.Resource(schema.GroupVersionResource{
				Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations",
			}).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "ear"},
			}}, create)
			return err
		}},
		{what: "take the class's policy out", do: func() error {
			return mallory.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, "operator-labs-shared-kinds", del)
		}},
		{what: "remove the kind that all share", do: func() error {
			return dynamicMallory.Resource(schema.GroupVersionResource{
				Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
			}).Delete(ctx, "icecreams.demo.lva.io", del)
		}},
		{what: "become an administrator", do: func() error {
			_, err := mallory.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: adminRef,
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: accounts, Name: "mallory"}},
			}, create)
			return err
		}},
		{what: "become one in the own namespace", want: "attempting to grant RBAC permissions not currently held", do: func() error {
			_, err := mallory.RbacV1().RoleBindings(own).Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: adminRef,
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: accounts, Name: "mallory"}},
			}, create)
			return err
		}},
		{what: "widen the own role", want: "attempting to grant RBAC permissions not currently held", do: func() error {
			role, err := mallory.RbacV1().Roles(own).Get(ctx, studentRole, get)
			if err != nil {
				return fmt.Errorf("it can't even be read: %w", err)
			}
			role.Rules = everything
			_, err = mallory.RbacV1().Roles(own).Update(ctx, role, metav1.UpdateOptions{})
			return err
		}},
		{what: "be another", do: func() error {
			other := rest.CopyConfig(config)
			other.Impersonate.UserName = "system:serviceaccount:" + accounts + ":victim"
			_, err := client(t, other).CoreV1().Pods("student-victim").List(ctx, list)
			return err
		}},
		{what: "eat another's icecream", want: `mallory may write those only whose names begin with "mallory."`, do: func() error {
			return dynamicMallory.Resource(icecreams).Delete(ctx, "victim.cup", del)
		}},
		{what: "eat that of one with a similar name", want: `whose names begin with "mallory."`, do: func() error {
			return dynamicMallory.Resource(icecreams).Delete(ctx, "mallory-b.cup", del)
		}},
		{what: "eat the shop's", want: `whose names begin with "mallory."`, do: func() error {
			return dynamicMallory.Resource(icecreams).Delete(ctx, "shop", del)
		}},
		{what: "make one in another's name", want: `whose names begin with "mallory."`, do: func() error {
			_, err := dynamicMallory.Resource(icecreams).Create(ctx, icecream("victim.second"), create)
			return err
		}},
		{what: "make one whose name the server chooses", want: `whose names begin with "mallory."`, do: func() error {
			cup := icecream("")
			cup.SetGenerateName("victim.cup-")
			_, err := dynamicMallory.Resource(icecreams).Create(ctx, cup, create)
			return err
		}},
		{what: "lie about another's, as an operator", want: `whose names begin with "mallory."`, do: func() error {
			cup := icecream("victim.cup")
			cup.Object["status"] = map[string]any{"soldOut": true}
			_, err := dynamicClient(t, operator).Resource(icecreams).ApplyStatus(ctx, "victim.cup", cup, metav1.ApplyOptions{FieldManager: "x"})
			return err
		}},
		{what: "eat all of them", do: func() error { return dynamicMallory.Resource(icecreams).DeleteCollection(ctx, del, list) }},
		{what: "take over another's from an operator's account", want: `whose names begin with "mallory."`, do: func() error {
			return dynamicClient(t, operator).Resource(icecreams).Delete(ctx, "victim.cup", del)
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			err := test.do()
			if test.want == "" {
				test.want = "cannot"
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("it gets %v, want a refusal with %q", err, test.want)
			}
		})
	}
	for _, name := range []string{"victim.cup", "mallory-b.cup", "shop"} {
		if _, err := administrator.Resource(icecreams).Get(ctx, name, get); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvitingAgainChangesNothing(t *testing.T) {
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
		t.Errorf("the first kubeconfig is\n%s", content)
	}
	if err := os.Chmod(first[0].Kubeconfig, 0o644); err != nil {
		t.Fatal(err)
	}
	again := invite(t, class, "ida", "ivan", "igor")
	if again[0].New || again[1].New || !again[2].New {
		t.Errorf("new kubeconfigs: %v, %v, %v; want one for igor only", again[0].New, again[1].New, again[2].New)
	}
	// A token has whole seconds.
	if d := again[0].Expires.Sub(first[0].Expires); d.Abs() > time.Second {
		t.Errorf("the second time it expires %s later", d)
	}
	if got := fmt.Sprint(versions()); got != fmt.Sprint(before) {
		t.Errorf("objects were changed:\n%s\nwas\n%s", got, before)
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
		t.Error("it is not renewed although that was asked for")
	}
	class.Renew = false
	// One that leads elsewhere is no good.
	class.Server = "https://kubernetes.default.svc"
	if moved := invite(t, class, "ida"); !moved[0].New || as(t, moved[0]).Host != class.Server {
		t.Error("the new address is not in the kubeconfig")
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

func TestAKubeconfigExpiresWhenItShould(t *testing.T) {
	t.Parallel()
	class := newClass(t)
	class.Lifetime = 20 * time.Minute
	invited := invite(t, class, "eve")[0]
	if left := time.Until(invited.Expires); left < 19*time.Minute || left > 20*time.Minute {
		t.Errorf("it expires in %s", left)
	}
	server := &clientcmdapi.Cluster{Server: class.Config.Host, CertificateAuthorityData: class.Config.CAData}
	if expires, ok := goodUntil(invited.Kubeconfig, server, uidOf(t, class, "eve")); !ok ||
		expires.Sub(invited.Expires).Abs() > time.Second {
		t.Errorf("the token itself says %s, %t", expires, ok)
	}
	// Of twenty minutes eleven were wanted, and those are left.
	if again := invite(t, class, "eve")[0]; again.New {
		t.Error("it was renewed at once")
	}
	class.Lifetime = time.Hour
	if again := invite(t, class, "eve")[0]; !again.New {
		t.Error("twenty minutes are left as they are where half an hour must be")
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

func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	t.Parallel()
	class := newClass(t)
	administrator := client(t, class.Config)
	_, err := administrator.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "student-union"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "nothing was changed: line 2: there is a namespace student-union that is none of a class"
	if _, err := class.Invite(t.Context(), students("olga", "union")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("inviting: %v, want %s", err, want)
	}
	if _, err := administrator.CoreV1().Namespaces().Get(t.Context(), "student-olga", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("another's namespace was made: %v", err)
	}
	if _, err := class.Revoke(t.Context(), students("union"), false); err == nil || !strings.Contains(err.Error(), "none of a class") {
		t.Errorf("revoking: %v", err)
	}
	if _, err := administrator.CoreV1().Namespaces().Get(t.Context(), "student-union", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestRevokedIsOut(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	class := newClass(t)
	invited := invite(t, class, "rita", "rob")
	rita, rob := client(t, as(t, invited[0])), client(t, as(t, invited[1]))
	if _, err := rita.CoreV1().ConfigMaps("student-rita").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	shop := dynamicClient(t, as(t, invited[0])).Resource(icecreams)
	if _, err := shop.Create(t.Context(), icecream("rita.cup"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	administrator := client(t, class.Config)

	kept, err := class.Revoke(t.Context(), students("rita", "nobody"), true)
	if err != nil || !kept[0].Was || kept[1].Was {
		t.Fatalf("revoked %v, %v", kept, err)
	}
	eventually(t, "the token is refused", func() error {
		if _, err := rita.CoreV1().ConfigMaps("student-rita").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("it gets %w", err)
		}
		return nil
	})
	if _, err := administrator.CoreV1().ConfigMaps("student-rita").Get(t.Context(), "work", metav1.GetOptions{}); err != nil {
		t.Errorf("the work was to be kept: %v", err)
	}
	if _, err := os.Stat(invited[0].Kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the kubeconfig is still there: %v", err)
	}

	if _, err := class.Revoke(t.Context(), students("rita"), false); err != nil {
		t.Fatal(err)
	}
	if _, err := administrator.CoreV1().Namespaces().Get(t.Context(), "student-rita", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is still there: %v", err)
	}
	if _, err := dynamicClient(t, class.Config).Resource(icecreams).Get(t.Context(),
		"rita.cup", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("her icecream is still there: %v", err)
	}
	if _, err := rob.CoreV1().ConfigMaps("student-rob").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the other has lost access, too: %v", err)
	}

	// Another account of the same name is another account.
	again := invite(t, class, "rita")[0]
	if !again.New {
		t.Error("the old kubeconfig was taken for good")
	}
	if _, err := rita.CoreV1().ConfigMaps("student-rita").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the revoked token gets %v", err)
	}
	if err := Try(t.Context(), again); err != nil {
		t.Error(err)
	}
}

func TestWhatWasInterruptedGoesOn(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	class := newClass(t)
	names := []string{"ina", "ines", "ingo", "inka", "ira", "iris", "isa", "ivo", "iwan", "iza", "izzy", "ike"}
	interrupted, cancel := context.WithCancelCause(t.Context())
	power := errors.New("the power went")
	class.Say = func(int, int, string) { cancel(power) }
	if _, err := class.Invite(interrupted, students(names...)); !errors.Is(err, context.Canceled) && !errors.Is(err, power) {
		t.Fatalf("it ended with %v", err)
	}
	class.Say = nil
	for _, invited := range invite(t, class, names...) {
		if err := Try(t.Context(), invited); err != nil {
			t.Error(err)
		}
	}
	interrupted, cancel = context.WithCancelCause(t.Context())
	class.Say = func(int, int, string) { cancel(power) }
	if _, err := class.Revoke(interrupted, students(names...), false); !errors.Is(err, context.Canceled) && !errors.Is(err, power) {
		t.Fatalf("it ended with %v", err)
	}
	class.Say = nil
	// The namespaces are still being removed: what is made in them now must not go with them.
	for _, invited := range invite(t, class, names[:3]...) {
		if err := Try(t.Context(), invited); err != nil {
			t.Error(err)
		}
		if _, err := client(t, as(t, invited)).CoreV1().ConfigMaps(invited.Namespace()).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := class.Revoke(t.Context(), students(names...), false); err != nil {
		t.Error(err)
	}
}
