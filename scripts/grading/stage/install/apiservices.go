// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package install

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/grading/submission"
)

// CheckAPIServices returns an error for APIServices that would take over an API group of other users.
func (t Target) CheckAPIServices(registrations []*unstructured.Unstructured) error {
	if !t.Shared {
		return nil
	}
	for _, registration := range registrations {
		group, _, _ := unstructured.NestedString(registration.Object, "spec", "group")
		if !slices.Contains(t.Groups, group) {
			return &submission.Problem{Reason: fmt.Sprintf("the APIService %s serves the API group %q, "+
				"and on a cluster that others use, too, it may serve only %s: "+
				"change its group, or grade it on the embedded cluster",
				registration.GetName(), group, strings.Join(t.Groups, ", "))}
		}
	}
	return nil
}

// WithCABundle returns an APIService as it is written, but with the authority of its server's certificate, in PEM.
func WithCABundle(registration *unstructured.Unstructured, ca []byte) (*unstructured.Unstructured, error) {
	registration = registration.DeepCopy()
	if insecure, _, _ := unstructured.NestedBool(registration.Object, "spec", "insecureSkipTLSVerify"); insecure {
		unstructured.RemoveNestedField(registration.Object, "spec", "caBundle") // the API server accepts only one of them
		return registration, nil
	}
	if err := unstructured.SetNestedField(registration.Object, base64.StdEncoding.EncodeToString(ca),
		"spec", "caBundle"); err != nil {
		return nil, &submission.Problem{Reason: fmt.Sprintf("the APIService %s can't be read: %v",
			registration.GetName(), err)}
	}
	return registration, nil
}

// AwaitAvailable waits until the API server reaches the servers of APIServices, for as long as it may reasonably take
// to find that out. It returns no error if the API server does not reach them, because the checks detect that.
func AwaitAvailable(
	ctx context.Context, client dynamic.Interface, registrations []*unstructured.Unstructured, patience time.Duration,
) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := awaitAvailable(waiting, client, registrations)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return nil
	}
	return err
}

func awaitAvailable(ctx context.Context, client dynamic.Interface, registrations []*unstructured.Unstructured) error {
	for _, registration := range registrations {
		err := await.Change(ctx, client.Resource(submission.APIServices),
			metav1.ListOptions{FieldSelector: "metadata.name=" + registration.GetName()},
			func(change watch.Event) (bool, error) {
				now, ok := change.Object.(*unstructured.Unstructured)
				if !ok {
					return false, apierrors.FromObject(change.Object)
				}
				return ConditionIs(now, "Available", "True"), nil
			})
		if err != nil {
			return fmt.Errorf("waiting for the APIService %s: %w", registration.GetName(), err)
		}
	}
	return nil
}

// Withdraw removes APIServices, because no namespace can be deleted while one of them has no server. It ignores a
// cluster that has ended, because there is nothing to remove.
func Withdraw(ctx context.Context, client dynamic.Interface, registrations []*unstructured.Unstructured) error {
	var problems []error
	for _, registration := range registrations {
		err := client.Resource(submission.APIServices).Delete(ctx, registration.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !utilnet.IsConnectionRefused(err) {
			problems = append(problems, fmt.Errorf("removing the APIService %s: %w", registration.GetName(), err))
		}
	}
	return errors.Join(problems...)
}
