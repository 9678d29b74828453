// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package install

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"lva.io/operators/scripts/grading/submission"
)

// bindClusterRole binds the operator's account to the role. It replaces the role of an earlier submission, whose rights
// must not help this one.
func (t Target) bindClusterRole(
	ctx context.Context, client rbacv1client.RbacV1Interface, role rbacv1.ClusterRole,
) error {
	role.Labels = labelled(role.Labels)
	_, err := client.ClusterRoles().Create(ctx, &role, metav1.CreateOptions{})
	if exists := apierrors.IsAlreadyExists(err); exists && !t.Shared {
		_, err = client.ClusterRoles().Update(ctx, &role, metav1.UpdateOptions{})
	}
	if err := t.allowExisting("the ClusterRole "+role.Name, err); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name, Labels: labelled(nil)}, Subjects: subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	_, err = client.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return t.allowExisting("the ClusterRoleBinding "+role.Name, err)
}

// bindRole is bindClusterRole for a role of one namespace, which it creates if it is missing. A role without a
// namespace applies to the operator's own, as kustomize would set it.
func (t Target) bindRole(ctx context.Context, client kubernetes.Interface, role rbacv1.Role) error {
	if role.Namespace == "" {
		role.Namespace = submission.AccountNamespace
	}
	role.Labels = labelled(role.Labels)
	// An existing namespace stays as it is, even that of another owner. In a shared cluster nothing can be created in it.
	if err := (Target{NamespaceCreated: t.NamespaceCreated}).namespace(ctx, client, role.Namespace); err != nil {
		return err
	}
	roles := client.RbacV1().Roles(role.Namespace)
	_, err := roles.Create(ctx, &role, metav1.CreateOptions{})
	if exists := apierrors.IsAlreadyExists(err); exists && !t.Shared {
		_, err = roles.Update(ctx, &role, metav1.UpdateOptions{})
	}
	if err := t.allowExisting("the Role "+role.Namespace+"/"+role.Name, err); err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name, Namespace: role.Namespace, Labels: labelled(nil)},
		Subjects:   subjects(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	_, err = client.RbacV1().RoleBindings(role.Namespace).Create(ctx, binding, metav1.CreateOptions{})
	return t.allowExisting("the RoleBinding "+role.Namespace+"/"+role.Name, err)
}
