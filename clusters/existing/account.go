// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package existing

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/await"
)

// Account is a user who has exactly the rights that it was granted. A client with its Config acts as that user, by
// impersonation. The API server prevents it from granting rights that it does not have.
type Account struct {
	// Config gives the access of the account.
	Config *rest.Config

	name  string
	admin kubernetes.Interface
}

const (
	// grantTimeout is how long it may take until the API server acts on a new right.
	grantTimeout  = 10 * time.Second
	grantInterval = 20 * time.Millisecond
)

// NewAccount creates an account with rights in the whole cluster, and returns when the rights are effective. The
// objects that it creates carry our label.
func NewAccount(ctx context.Context, config *rest.Config, rules []rbacv1.PolicyRule) (*Account, error) {
	a := &Account{Config: rest.CopyConfig(config), name: "operator-labs-" + strings.ToLower(rand.Text()[:8])}
	a.Config.Impersonate = rest.ImpersonationConfig{UserName: a.name, Groups: []string{"system:authenticated"}}
	var err error
	if a.admin, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: a.metadata(""), Rules: rules}
	if _, err := a.admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating the role of an account: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: a.metadata(""), Subjects: a.subjects(), RoleRef: rbacv1.RoleRef{
		APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.name,
	}}
	if _, err := a.admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("binding the role of an account: %w", err)
	}
	return a, a.await(ctx, "", rules)
}

// Own grants the account all rights in a namespace, and returns when they are effective.
func (a *Account) Own(ctx context.Context, namespace string) error {
	all := []string{rbacv1.ResourceAll} // which is the wildcard of groups and verbs, too
	rules := []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}
	role := &rbacv1.Role{ObjectMeta: a.metadata(namespace), Rules: rules}
	if _, err := a.admin.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the role of an account: %w", err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: a.metadata(namespace), Subjects: a.subjects(), RoleRef: rbacv1.RoleRef{
		APIGroup: rbacv1.GroupName, Kind: "Role", Name: a.name,
	}}
	if _, err := a.admin.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("binding the role of an account: %w", err)
	}
	return a.await(ctx, namespace, rules)
}

func (a *Account) metadata(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: a.name, Namespace: namespace, Labels: map[string]string{Label: "true"}}
}

func (a *Account) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: a.name}}
}

// await waits until the API server knows of the rights: its authorizer learns of roles by a watch.
func (a *Account) await(ctx context.Context, namespace string, rules []rbacv1.PolicyRule) error {
	if len(rules) == 0 {
		return nil
	}
	client, err := kubernetes.NewForConfig(a.Config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, grantTimeout,
		fmt.Errorf("the API server did not act on a new role within %s", grantTimeout))
	defer cancel()
	// All rights come with one role, so it is enough to check one of them.
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: rules[0].APIGroups[0], Resource: rules[0].Resources[0], Verb: rules[0].Verbs[0],
		},
	}}
	return await.Until(ctx, grantInterval, "the rights of an account", func(ctx context.Context) (string, error) {
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		switch {
		case err != nil:
			return err.Error(), nil //nolint:nilerr // the account itself may be that new
		case !answer.Status.Allowed:
			return "they are not granted yet", nil
		}
		return "", nil
	})
}
