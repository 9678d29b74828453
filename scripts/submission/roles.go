// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
)

// bindClusterRole gives the operator's account the role. One of an earlier submission is replaced: its rights must not
// help this one.
func bindClusterRole(ctx context.Context, client rbacv1client.RbacV1Interface, role rbacv1.ClusterRole) error {
	if _, err := client.ClusterRoles().Create(ctx, &role, metav1.CreateOptions{}); ignoreExisting(err) != nil {
		return err
	} else if err != nil {
		if _, err := client.ClusterRoles().Update(ctx, &role, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	_, err := client.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return ignoreExisting(err)
}

// bindRole is bindClusterRole for a role of one namespace, which is made if it is missing. A role that names none is for
// the operator's own, as kustomize would have it.
func bindRole(ctx context.Context, client kubernetes.Interface, role rbacv1.Role) error {
	if role.Namespace == "" {
		role.Namespace = operatorNamespace
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: role.Namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); ignoreExisting(err) != nil {
		return err
	}
	roles := client.RbacV1().Roles(role.Namespace)
	if _, err := roles.Create(ctx, &role, metav1.CreateOptions{}); ignoreExisting(err) != nil {
		return err
	} else if err != nil {
		if _, err := roles.Update(ctx, &role, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name, Namespace: role.Namespace}, Subjects: subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	_, err := client.RbacV1().RoleBindings(role.Namespace).Create(ctx, binding, metav1.CreateOptions{})
	return ignoreExisting(err)
}
