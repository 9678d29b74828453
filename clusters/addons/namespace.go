// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// namespacePatience is how long the deletion of a namespace may take.
	namespacePatience = time.Minute
	// createdBy is the label of a namespace that was created for an add-on. An uninstall deletes the namespace only if it
	// has the label. Releases, the objects of cert-manager's chart, and the objects of our own manifests outside of their
	// namespaces have it, too.
	createdBy = "operator-labs.lva.io/addon"
)

// namespaceReady creates an add-on's namespace. If an earlier one of that name is being deleted, it waits first until
// that is gone.
func namespaceReady(ctx context.Context, client kubernetes.Interface, name, addon string, report func(string)) error {
	reported := false
	return until(ctx, namespacePatience, "the namespace "+name, func(ctx context.Context) (string, error) {
		namespace, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{createdBy: addon},
			}}, metav1.CreateOptions{})
			if err == nil || apierrors.IsAlreadyExists(err) {
				return "", nil
			}
		}
		if err != nil {
			return "", err
		}
		if namespace.DeletionTimestamp == nil {
			return "", nil
		}
		if !reported {
			report(fmt.Sprintf("waiting for the deletion of the old namespace %s", name))
			reported = true
		}
		return "it is still being deleted" + terminating(namespace), nil
	})
}

// removeNamespace deletes an add-on's namespace if it was created for the add-on, and waits until it is gone.
func removeNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	namespace, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && namespace.Labels[createdBy] == "" {
		return nil
	}
	if err == nil {
		err = endPods(ctx, client, name)
	}
	if err == nil {
		err = client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the namespace %s: %w", name, err)
	}
	return until(ctx, namespacePatience, "the end of the namespace "+name, func(ctx context.Context) (string, error) {
		namespace, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return "it is still being deleted" + terminating(namespace), nil
	})
}

// endPods ends the Pods of a namespace that is about to be deleted. The namespace controller would look for Pods once,
// and again only after half of their grace period.
func endPods(ctx context.Context, client kubernetes.Interface, namespace string) error {
	background := metav1.DeletePropagationBackground
	if err := client.AppsV1().Deployments(namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}); err != nil {
		return err
	}
	return until(ctx, namespacePatience, "the end of the Pods of "+namespace, func(ctx context.Context) (string, error) {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d Pods remain", len(pods.Items)), nil
	})
}

// terminating reports what a namespace that is being deleted waits for.
func terminating(namespace *corev1.Namespace) string {
	for _, condition := range namespace.Status.Conditions {
		switch condition.Type {
		case corev1.NamespaceContentRemaining, corev1.NamespaceFinalizersRemaining, corev1.NamespaceDeletionContentFailure:
			if condition.Status == corev1.ConditionTrue {
				return ": " + condition.Message
			}
		}
	}
	return ""
}
