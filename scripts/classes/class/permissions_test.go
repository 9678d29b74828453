// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestStudentIsAllowed(t *testing.T) {
	t.Parallel()
	class := newClass(t)
	invited := invite(t, class, "ada")[0]
	if err := Try(t.Context(), invited); err != nil {
		t.Fatal(err)
	}
	config := as(t, invited)
	ada, namespace := client(t, config), "student-ada"

	// The namespace comes from the context: kubectl needs no -n.
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: invited.Kubeconfig}, nil)
	if got, _, err := loaded.Namespace(); err != nil || got != namespace {
		t.Errorf("the kubeconfig's namespace is %q, %v", got, err)
	}
	// A Deployment without resources gets its Pod through quota, limits and Pod security.
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
			t.Errorf("the container has the limits %v", pods.Items[0].Spec.Containers[0].Resources.Limits)
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
					{
						APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
						Verbs: []string{"get", "create", "update"},
					},
					{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
				},
			}, metav1.CreateOptions{})
			return err
		},
		"an icecream of the own name": func() error {
			_, err := dynamicClient(t, config).Resource(icecreams).Create(
				t.Context(), icecream("ada.cup"), metav1.CreateOptions{},
			)
			return err
		},
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	// An operator that runs as a Pod has an account in the namespace.
	token, err := ada.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	operator := rest.AnonymousClientConfig(config)
	operator.BearerToken = token.Status.Token
	shop := dynamicClient(t, operator).Resource(icecreams)
	if _, err := shop.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the operator's account can't list icecreams: %v", err)
	}
	cup, err := shop.Get(t.Context(), "ada.cup", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cup.Object["status"] = map[string]any{"soldOut": false, "toppingsCount": int64(0)}
	if _, err := shop.UpdateStatus(t.Context(), cup, metav1.UpdateOptions{}); err != nil {
		t.Errorf("the operator's account can't update a status: %v", err)
	}
}

// TestStudentIsForbidden sends requests that a student with the issued kubeconfig must not be allowed.
func TestStudentIsForbidden(t *testing.T) {
	t.Parallel()
	class := newClass(t)
	both := invite(t, class, "mallory", "mallory-b", "victim")
	config := as(t, both[0])
	mallory, own, dynamicMallory := client(t, config), "student-mallory", dynamicClient(t, config)
	administrator := dynamicClient(t, class.Config)
	for _, name := range []string{"victim.cup", "mallory-b.cup", "shop"} {
		if _, err := administrator.Resource(icecreams).Create(
			t.Context(), icecream(name), metav1.CreateOptions{},
		); err != nil {
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
		// want is part of the error. Default: RBAC forbids the request, and its message has the word "cannot".
		want string
	}{
		{what: "look into another's namespace", do: func() error {
			_, err := mallory.CoreV1().Pods("student-victim").List(ctx, list)
			return err
		}},
		{what: "read another's Secrets", do: func() error {
			_, err := mallory.CoreV1().Secrets("student-victim").List(ctx, list)
			return err
		}},
		{what: "run something in another's namespace", do: func() error {
			_, err := mallory.CoreV1().Pods("student-victim").Create(ctx, pod("x", nil), create)
			return err
		}},
		{what: "delete another's namespace", do: func() error {
			return mallory.CoreV1().Namespaces().Delete(ctx, "student-victim", del)
		}},
		{what: "list the students of the class", do: func() error {
			_, err := mallory.CoreV1().Namespaces().List(ctx, list)
			return err
		}},
		{what: "list the accounts", do: func() error {
			_, err := mallory.CoreV1().ServiceAccounts(accounts).List(ctx, list)
			return err
		}},
		{what: "make a token of another", do: func() error {
			_, err := mallory.CoreV1().ServiceAccounts(accounts).CreateToken(
				ctx, "victim", &authenticationv1.TokenRequest{}, create,
			)
			return err
		}},
		{what: "extend the own access", do: func() error {
			_, err := mallory.CoreV1().ServiceAccounts(accounts).CreateToken(
				ctx, "mallory", &authenticationv1.TokenRequest{}, create,
			)
			return err
		}},
		{what: "make a token that never expires", do: func() error {
			_, err := mallory.CoreV1().Secrets(accounts).Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Name: "forever", Annotations: map[string]string{corev1.ServiceAccountNameKey: "mallory"},
				},
				Type: corev1.SecretTypeServiceAccountToken,
			}, create)
			return err
		}},
		{what: "read Secrets of the system", do: func() error {
			_, err := mallory.CoreV1().Secrets("kube-system").List(ctx, list)
			return err
		}},
		{what: "read all Secrets", do: func() error {
			_, err := mallory.CoreV1().Secrets("").List(ctx, list)
			return err
		}},
		{what: "make a namespace without limits", do: func() error {
			_, err := mallory.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: "mine"},
			}, create)
			return err
		}},
		{what: "remove the quota of the own namespace", do: func() error {
			return mallory.CoreV1().ResourceQuotas(own).DeleteCollection(ctx, del, list)
		}},
		{what: "delete the LimitRange", do: func() error {
			return mallory.CoreV1().LimitRanges(own).Delete(ctx, "student", del)
		}},
		{what: "delete the network policy", do: func() error {
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
				s.Volumes = []corev1.Volume{
					{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
				}
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
		{what: "point a Service at any address", do: func() error {
			//nolint:staticcheck // endpoints are deprecated, and an attacker does not mind
			_, err := mallory.CoreV1().Endpoints(own).Create(ctx, &corev1.Endpoints{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
			}, create)
			return err
		}},
		{what: "look at the nodes", do: func() error {
			_, err := mallory.CoreV1().Nodes().List(ctx, list)
			return err
		}},
		{what: "register a webhook", do: func() error {
			_, err := dynamicMallory.Resource(schema.GroupVersionResource{
				Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations",
			}).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
				"metadata": map[string]any{"name": "ear"},
			}}, create)
			return err
		}},
		{what: "delete the class's policy", do: func() error {
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
		{
			what: "become an administrator of the own namespace",
			want: "attempting to grant RBAC permissions not currently held",
			do: func() error {
				_, err := mallory.RbacV1().RoleBindings(own).Create(ctx, &rbacv1.RoleBinding{
					ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: adminRef,
					Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: accounts, Name: "mallory"}},
				}, create)
				return err
			},
		},
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
		{
			what: "eat another's icecream", want: `mallory may write those only whose names begin with "mallory."`,
			do: func() error {
				return dynamicMallory.Resource(icecreams).Delete(ctx, "victim.cup", del)
			},
		},
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
		{what: "write another's status, as an operator", want: `whose names begin with "mallory."`, do: func() error {
			cup := icecream("victim.cup")
			cup.Object["status"] = map[string]any{"soldOut": true}
			_, err := dynamicClient(t, operator).Resource(icecreams).ApplyStatus(
				ctx, "victim.cup", cup, metav1.ApplyOptions{FieldManager: "x"},
			)
			return err
		}},
		{what: "eat all of them", do: func() error {
			return dynamicMallory.Resource(icecreams).DeleteCollection(ctx, del, list)
		}},
		{what: "take over another's from an operator's account", want: `whose names begin with "mallory."`, do: func() error {
			return dynamicClient(t, operator).Resource(icecreams).Delete(ctx, "victim.cup", del)
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			err := test.do()
			if test.want == "" {
				test.want = "cannot"
			}
			if err == nil || !strings.Contains(err.Error(), test.want) ||
				!apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("error = %v, want a refusal with %q", err, test.want)
			}
		})
	}
	for _, name := range []string{"victim.cup", "mallory-b.cup", "shop"} {
		if _, err := administrator.Resource(icecreams).Get(ctx, name, get); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
