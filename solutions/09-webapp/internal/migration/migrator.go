// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package migration rewrites the objects that are stored in an old version.
package migration

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

const (
	crdName = "webapps.apps.lva.io"
	// tryAgain is how long to wait after a migration that did not end: it is in no hurry, and everything works meanwhile.
	tryAgain = 2 * time.Second
)

// Migrator writes each WebApp once, so that it is stored in the version that the CRD stores now, and then takes all
// others from the CRD's status.storedVersions. Only then may a later release remove an old version from the CRD. The
// manager runs it once, after each start.
type Migrator struct {
	// Client writes.
	client.Client
	// Reader reads from the API server itself, since a cache may be behind.
	Reader client.Reader
}

// The names of resources keep the right to this one CRD.

// +kubebuilder:rbac:groups=apps.lva.io,resources=webapps,verbs=list;update
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=webapps.apps.lva.io,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions/status,resourceNames=webapps.apps.lva.io,verbs=update

// Start migrates, and tries again until it is done. It implements manager.Runnable.
func (m *Migrator) Start(ctx context.Context) error {
	// It ends with an error only when the manager ends. The next process continues.
	_ = wait.PollUntilContextCancel(ctx, tryAgain, true, func(ctx context.Context) (bool, error) {
		err := m.migrate(ctx)
		if err != nil {
			logf.FromContext(ctx).WithName("migration").Error(err, "Cannot migrate the stored WebApps yet")
		}
		return err == nil, nil
	})
	return nil
}

// NeedLeaderElection says that one operator of several is enough for it.
func (*Migrator) NeedLeaderElection() bool { return true }

func (m *Migrator) migrate(ctx context.Context) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := m.Reader.Get(ctx, client.ObjectKey{Name: crdName}, &crd); err != nil {
		return fmt.Errorf("read the CRD: %w", err)
	}
	current := []string{storageVersion(&crd)}
	if slices.Equal(crd.Status.StoredVersions, current) {
		return nil
	}

	var apps appsv1beta1.WebAppList
	if err := m.Reader.List(ctx, &apps); err != nil {
		return fmt.Errorf("list the WebApps: %w", err)
	}
	for i := range apps.Items {
		// The update changes nothing, and the API server writes the object all the same, since its stored bytes would differ
		// today. After a conflict, another client's update has migrated the object. After NotFound, there is nothing left to
		// migrate.
		if err := m.Update(ctx, &apps.Items[i]); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("write the WebApp %s again: %w", client.ObjectKeyFromObject(&apps.Items[i]), err)
		}
	}

	// This is a conflict if the CRD has changed by now: then the objects may have been written in an old version again.
	crd.Status.StoredVersions = current
	if err := m.Status().Update(ctx, &crd); err != nil {
		return fmt.Errorf("write the CRD's stored versions: %w", err)
	}
	logf.FromContext(ctx).WithName("migration").Info("All WebApps are stored in one version",
		"version", current[0], "count", len(apps.Items))
	return nil
}

// storageVersion is the version in which the API server stores now. There is always exactly one.
func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}
