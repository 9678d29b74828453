// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Revoked reports what Revoke found for a student.
type Revoked struct {
	Student
	// Existed is true if the student had been invited.
	Existed bool
}

// Revoke removes the access of students. First it deletes all of their accounts, so that they can no longer change
// anything. Then it deletes their cluster-scoped objects, their namespaces with all content, and the local kubeconfigs.
// With keepWork it keeps the namespaces and the objects. After the last student it also deletes the objects of the
// whole class, unless a namespace was kept.
//
// The API server caches authentication results for ten seconds, so a revoked token may work that long.
func (c *Class) Revoke(ctx context.Context, students []Student, keepWork bool) ([]Revoked, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	common, err := shared()
	if err != nil {
		return nil, err
	}
	namespaces, err := clients.preflight(ctx, students)
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	// Delete all accounts before the first namespace, because namespaces take longer.
	revoked := make([]Revoked, len(students))
	err = each(ctx, students, func(ctx context.Context, i int, student Student) error {
		had, err := clients.removeAccess(ctx, student)
		if err != nil {
			return fmt.Errorf("revoking the access of %s: %w", student.Name, err)
		}
		if err := os.Remove(c.kubeconfigFile(student)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing the kubeconfig of %s: %w", student.Name, err)
		}
		revoked[i] = Revoked{Student: student, Existed: had || namespaces[student.Namespace()] != nil}
		return nil
	})
	if err != nil || keepWork {
		return revoked, err
	}
	if err := clients.removeShared(ctx, students, sharedGroups(common)); err != nil {
		return revoked, err
	}
	// All are deleted before we wait for the first: the cluster removes several at a time, and each takes seconds.
	var deleted []string
	for _, student := range students {
		deleted = append(deleted, student.Namespace())
	}
	err = each(ctx, students, func(ctx context.Context, _ int, student Student) error {
		err := clients.CoreV1().Namespaces().Delete(ctx, student.Namespace(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the namespace of %s: %w", student.Name, err)
		}
		return nil
	})
	if err == nil {
		err = clients.waitGone(ctx, deleted, func(left int) {
			c.progress(len(deleted)-left, len(deleted), "namespaces")
		})
	}
	if err != nil {
		return revoked, fmt.Errorf(
			"%w. No student of the roster has access anymore. Revoke again to delete the remaining objects", err,
		)
	}
	return revoked, clients.removeCommon(ctx, c)
}

// each calls do for all students, several at a time.
func each(ctx context.Context, students []Student, do func(context.Context, int, Student) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, student := range students {
		group.Go(func() error { return do(ctx, i, student) })
	}
	return group.Wait()
}

// removeAccess deletes the student's account, and with it every token. It also deletes the ClusterRoleBinding, which
// includes the accounts in the namespace, and the RoleBinding.
func (c *clients) removeAccess(ctx context.Context, student Student) (had bool, err error) {
	err = c.CoreV1().ServiceAccounts(accounts).Delete(ctx, student.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	had = err == nil
	for _, remove := range []func() error{
		func() error {
			return c.RbacV1().ClusterRoleBindings().Delete(ctx, student.clusterBinding(), metav1.DeleteOptions{})
		},
		func() error {
			return c.RbacV1().RoleBindings(student.Namespace()).Delete(ctx, studentRole, metav1.DeleteOptions{})
		},
	} {
		if err := remove(); err != nil && !apierrors.IsNotFound(err) {
			return had, err
		}
	}
	return had, nil
}

// removeShared deletes the students' objects of the cluster-scoped kinds that the class shares. It finds them by the
// students' names.
func (c *clients) removeShared(ctx context.Context, students []Student, groups []string) error {
	_, lists, err := c.Discovery().ServerGroupsAndResources()
	if err != nil && lists == nil {
		return fmt.Errorf("discovering the API resources of the cluster: %w", err)
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || !slices.Contains(groups, version.Group) {
			continue
		}
		for _, kind := range list.APIResources {
			if kind.Namespaced || !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") {
				continue
			}
			resource := c.dynamic.Resource(version.WithResource(kind.Name))
			objects, err := resource.List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("listing the %s: %w", kind.Name, err)
			}
			for _, object := range objects.Items {
				owner, _, ok := strings.Cut(object.GetName(), ".")
				if !ok || !slices.ContainsFunc(students, func(s Student) bool { return s.Name == owner }) {
					continue
				}
				if err := resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("deleting the %s %s: %w", kind.Kind, object.GetName(), err)
				}
			}
		}
	}
	return nil
}

// removeCommon deletes the objects that the class has in common, if no student is left who needs them.
func (c *clients) removeCommon(ctx context.Context, class *Class) error {
	left, err := c.invitations(ctx)
	if err != nil {
		return err
	}
	kept, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: StudentLabel})
	if err != nil {
		return fmt.Errorf("listing the students' namespaces: %w", err)
	}
	if len(left) > 0 || len(kept.Items) > 0 {
		return nil
	}
	common, err := shared()
	if err != nil {
		return err
	}
	for _, object := range slices.Backward(common) {
		resource, err := c.resource(object)
		if err != nil {
			return err
		}
		if err := c.foreign(ctx, object); err != nil {
			continue // it existed before the class, and stays
		}
		if err := resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the %s: %w", described(object), err)
		}
	}
	if err := c.waitGone(ctx, []string{accounts}, func(int) {}); err != nil {
		return err
	}
	if err := os.Remove(class.listFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the list of students: %w", err)
	}
	// The folder is removed only if it is empty: an instructor may keep other files in it.
	_ = os.Remove(class.Out)
	return nil
}

// goneTimeout is how long waitGone waits without any change to the namespaces that are being deleted.
const goneTimeout = time.Minute

// waitGone waits until our namespaces that are being deleted are gone. It gives up when nothing has changed for
// goneTimeout. The error then lists what the namespaces wait for.
func (c *clients) waitGone(ctx context.Context, names []string, progress func(left int)) error {
	last, since := "", time.Now()
	err := wait.PollUntilContextCancel(ctx, 300*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: classLabel})
		if err != nil {
			return false, err
		}
		var left []corev1.Namespace
		var state strings.Builder
		for _, namespace := range list.Items {
			if slices.Contains(names, namespace.Name) {
				left = append(left, namespace)
				fmt.Fprintln(&state, namespace.Name, namespace.ResourceVersion)
			}
		}
		progress(len(left))
		if len(left) == 0 {
			return true, nil
		}
		if state.String() != last {
			last, since = state.String(), time.Now()
		}
		if time.Since(since) > goneTimeout {
			return false, fmt.Errorf("the namespace %s is still terminating: %s", left[0].Name, stuckReason(&left[0]))
		}
		return false, nil
	})
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("waiting for namespaces to be deleted: %w", err)
	}
	return nil
}

// stuckReason returns the namespace controller's reason why a namespace is not deleted yet.
func stuckReason(namespace *corev1.Namespace) string {
	var reasons []string
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			reasons = append(reasons, condition.Message)
		}
	}
	if len(reasons) == 0 {
		return "no condition says why; is the kube-controller-manager running?"
	}
	return strings.Join(reasons, "; ")
}
