// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package existing

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// An account has the rights that it was granted, and can't grant more than those.
func TestAccountHasGrantedRights(t *testing.T) {
	c := opened(t)
	t.Cleanup(func() {
		if _, err := c.Clean(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	account, err := NewAccount(t.Context(), c.Config(), []rbacv1.PolicyRule{
		{
			APIGroups: []string{"rbac.authorization.k8s.io"},
			Resources: []string{"clusterroles", "clusterrolebindings"},
			Verbs:     []string{"create"},
		},
		{APIGroups: []string{"demo.lva.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(account.Config)
	meta := metav1.ObjectMeta{Name: "operator-labs-test", Labels: map[string]string{Label: "true"}}
	give := func(group string) error {
		_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
			ObjectMeta: meta,
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{group}, Resources: []string{"icecreams"}, Verbs: []string{"delete"}},
			},
		}, metav1.CreateOptions{})
		return err
	}
	if err := give("apps"); !apierrors.IsForbidden(err) {
		t.Errorf("the account can grant rights that it does not have: %v", err)
	}
	if err := give("demo.lva.io"); err != nil {
		t.Errorf("the account can't grant rights that it has: %v", err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}},
	}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the account can bind cluster-admin: %v", err)
	}

	admin := kubernetes.NewForConfigOrDie(c.Config())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "operator-labs-test", Labels: meta.Labels}}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := account.Own(t.Context(), namespace.Name); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]bool{
		namespace.Name:          true,
		metav1.NamespaceDefault: false,
		metav1.NamespaceSystem:  false,
	} {
		_, err := client.CoreV1().ConfigMaps(where).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta},
			metav1.CreateOptions{})
		if (err == nil) != want || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("in %s: %v", where, err)
		}
	}
}
