// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package install

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/existing"
)

const (
	// upgradeTimeout is how long the API server may take to serve the versions of a definition. It takes a tenth of a
	// second.
	upgradeTimeout = 20 * time.Second
	// versionPoll is the interval at which the API server is polled for them.
	versionPoll = 15 * time.Millisecond
)

// Upgrade applies definitions with all their versions to a cluster that has them with fewer, and returns when the API
// server serves all of them. It ignores in.Shared, because the definitions are this run's own.
func (t Target) Upgrade(ctx context.Context, definitions []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeoutCause(ctx, upgradeTimeout,
		fmt.Errorf("the API server did not serve all versions within %s", upgradeTimeout))
	defer cancel()
	t.Shared = false
	client, err := dynamic.NewForConfig(t.Config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	for _, definition := range definitions {
		if _, err := t.Apply(ctx, client.Resource(Definitions), definition); err != nil {
			return err
		}
		if err := awaitVersions(ctx, client, definition); err != nil {
			return err
		}
	}
	return nil
}

// awaitVersions waits until the API server serves each served version of a definition. The API server begins to use
// another storage version at the same moment. awaitVersions requests an object that does not exist, so that nothing has
// to be converted.
func awaitVersions(ctx context.Context, client dynamic.Interface, definition *unstructured.Unstructured) error {
	scope, _, _ := unstructured.NestedString(definition.Object, "spec", "scope")
	for _, served := range existing.ServedResources(definition) {
		kind := client.Resource(served)
		objects := dynamic.ResourceInterface(kind)
		if scope == "Namespaced" {
			objects = kind.Namespace(metav1.NamespaceDefault)
		}
		err := wait.PollUntilContextCancel(ctx, versionPoll, true, func(ctx context.Context) (bool, error) {
			_, err := objects.Get(ctx, "operator-labs-none", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				// For a version that is not served, the answer has no Status.
				return !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse), nil
			}
			return err == nil, err
		})
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("waiting for %s of %s: %w", served.Resource, served.GroupVersion(), err)
		}
	}
	return nil
}
