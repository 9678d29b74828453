// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1apply "k8s.io/client-go/applyconfigurations/rbac/v1"
)

// Invited describes the access that a student has after Invite.
type Invited struct {
	Student
	// Kubeconfig is the file to give to the student.
	Kubeconfig string
	// Expires is when the kubeconfig expires.
	Expires time.Time
	// New is true if the kubeconfig is a new one. Otherwise the student already has it.
	New bool
}

var ciliumPolicies = schema.GroupVersionKind{Group: "cilium.io", Version: "v2", Kind: "CiliumNetworkPolicy"}

// Invite gives each student a namespace, an account and a kubeconfig, or updates the existing ones. First it looks for
// objects of others that have the names of ours. If there are any, it changes nothing.
//
// It keeps an existing kubeconfig that belongs to the same account and is valid for another week, or for half of
// Lifetime if that is shorter. So another invitation changes nothing for students who already have access.
func (c *Class) Invite(ctx context.Context, students []Student) ([]Invited, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	common, err := shared()
	if err != nil {
		return nil, err
	}
	namespaces, err := clients.preflight(ctx, students)
	for _, object := range common {
		err = errors.Join(err, clients.foreign(ctx, object))
	}
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	if err := os.MkdirAll(c.Out, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder for kubeconfigs: %w", err)
	}
	if namespace := namespaces[accounts]; namespace != nil && namespace.DeletionTimestamp != nil {
		if err := clients.waitGone(ctx, []string{accounts}, func(int) {}); err != nil {
			return nil, err
		}
	}
	for _, object := range common {
		if err := clients.apply(ctx, object); err != nil {
			return nil, err
		}
	}
	withCilium := clients.serves(ciliumPolicies)
	invited := make([]Invited, len(students))
	var done atomic.Int64
	group, groupContext := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, student := range students {
		group.Go(func() error {
			var err error
			if invited[i], err = c.invite(
				groupContext, clients, student, withCilium, namespaces[student.Namespace()],
			); err != nil {
				return fmt.Errorf("inviting %s: %w", student.Name, err)
			}
			c.progress(int(done.Add(1)), len(students), student.Name)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("%w. Invite again to continue: invited students keep their access", err)
	}
	return invited, c.writeList(invited)
}

func (c *Class) progress(done, total int, what string) {
	if c.Progress != nil {
		c.Progress(done, total, what)
	}
}

// preflight returns the existing namespaces, by name. It returns an error for those that have a student's name and were
// not created by this package.
func (c *clients) preflight(ctx context.Context, students []Student) (map[string]*corev1.Namespace, error) {
	list, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the namespaces (this needs an administrator's access): %w", err)
	}
	namespaces := map[string]*corev1.Namespace{}
	for i := range list.Items {
		namespaces[list.Items[i].Name] = &list.Items[i]
	}
	var problems []error
	for _, student := range students {
		namespace := namespaces[student.Namespace()]
		if namespace != nil && namespace.Labels[StudentLabel] != student.Name {
			problems = append(problems, fmt.Errorf("line %d: the namespace %s exists and does not belong to a class: "+
				"rename the student, or delete it", student.Line, namespace.Name))
		}
	}
	return namespaces, errors.Join(problems...)
}

func (c *Class) invite(
	ctx context.Context, clients *clients, student Student, withCilium bool, have *corev1.Namespace,
) (Invited, error) {
	if have != nil && have.DeletionTimestamp != nil {
		// The namespace may still be terminating after a revocation. Objects applied to it now would be deleted with it.
		if err := clients.waitGone(ctx, []string{student.Namespace()}, func(int) {}); err != nil {
			return Invited{}, err
		}
	}
	objects, err := objectsOf(student, withCilium)
	if err != nil {
		return Invited{}, err
	}
	for _, object := range objects {
		if err := clients.apply(ctx, object); err != nil {
			return Invited{}, err
		}
	}
	account, err := clients.applyAccount(ctx, student)
	if err != nil {
		return Invited{}, err
	}
	return c.kubeconfig(ctx, clients, student, account)
}

// applyAccount applies the student's account and its permissions.
func (c *clients) applyAccount(ctx context.Context, student Student) (*corev1.ServiceAccount, error) {
	labels := map[string]string{classLabel: "true", StudentLabel: student.Name}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	account, err := c.CoreV1().ServiceAccounts(accounts).Apply(ctx,
		corev1apply.ServiceAccount(student.Name, accounts).
			WithLabels(labels).WithAutomountServiceAccountToken(false), options)
	if err != nil {
		return nil, fmt.Errorf("applying the ServiceAccount: %w", err)
	}
	subject := rbacv1apply.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(accounts).WithName(student.Name)
	_, err = c.RbacV1().RoleBindings(student.Namespace()).Apply(ctx,
		rbacv1apply.RoleBinding(studentRole, student.Namespace()).
			WithLabels(labels).WithSubjects(subject).
			WithRoleRef(rbacv1apply.RoleRef().
				WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(studentRole)), options)
	if err != nil {
		return nil, fmt.Errorf("applying the RoleBinding: %w", err)
	}
	// The accounts in the namespace are subjects, too: an operator that runs there must see the kinds that it reconciles.
	operators := rbacv1apply.Subject().WithAPIGroup(rbacv1.GroupName).WithKind(rbacv1.GroupKind).
		WithName("system:serviceaccounts:" + student.Namespace())
	_, err = c.RbacV1().ClusterRoleBindings().Apply(ctx,
		rbacv1apply.ClusterRoleBinding(student.clusterBinding()).
			WithLabels(labels).WithSubjects(subject, operators).
			WithRoleRef(rbacv1apply.RoleRef().
				WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(clusterRole)), options)
	if err != nil {
		return nil, fmt.Errorf("applying the ClusterRoleBinding: %w", err)
	}
	return account, nil
}

// clusterBinding returns the name of the student's ClusterRoleBinding.
func (s Student) clusterBinding() string { return clusterRole + ":" + s.Name }

// Invitations returns the names of the students who have access.
func (c *Class) Invitations(ctx context.Context) ([]string, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	return clients.invitations(ctx)
}

func (c *clients) invitations(ctx context.Context) (names []string, err error) {
	list, err := c.CoreV1().ServiceAccounts(accounts).List(ctx, metav1.ListOptions{LabelSelector: StudentLabel})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("listing the students' accounts: %w", err)
	}
	for _, account := range list.Items {
		names = append(names, account.Labels[StudentLabel])
	}
	return names, nil
}
