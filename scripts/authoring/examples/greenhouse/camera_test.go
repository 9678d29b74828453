// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lva.io/operators/clusters/await"
	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

// testCamera is a part of TestOnARealAPIServer. There are no nodes, so the Deployment controller reports that the
// camera is unavailable.
func testCamera(t *testing.T, api client.Client) {
	t.Helper()
	reconciler := &CameraReconciler{Client: api, Image: "camera:v1"}
	greenhouse := newGreenhouse("ferns", 10, 25)
	camera := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: greenhouse.Namespace, Name: "ferns-camera"}}
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	read := func(object client.Object) {
		t.Helper()
		must(api.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}
	// reports reconciles a greenhouse, and compares its condition with what is wanted.
	reports := func(greenhouse client.Object, status metav1.ConditionStatus, reason string) {
		t.Helper()
		_, err := reconciler.Reconcile(t.Context(), requestFor(greenhouse))
		must(err)
		read(greenhouse)
		expectCondition(t, greenhouse, status, reason)
	}

	must(api.Create(t.Context(), greenhouse))
	reports(greenhouse, metav1.ConditionUnknown, "NotObserved")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(await.Until(ctx, 50*time.Millisecond, "the Deployment's condition", func(ctx context.Context) (string, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(camera), camera)
		if camera.Status.ObservedGeneration == 0 || len(camera.Status.Conditions) == 0 {
			return "its controller has reported nothing", err
		}
		return "", err
	}))
	if !metav1.IsControlledBy(camera, greenhouse) || !isAppliedBy(camera, "greenhouse-cameras") {
		t.Errorf("the camera has owners %v and managers %v", camera.OwnerReferences, camera.ManagedFields)
	}
	reports(greenhouse, metav1.ConditionFalse, "MinimumReplicasUnavailable")
	version, generation := greenhouse.ResourceVersion, camera.Generation
	reports(greenhouse, metav1.ConditionFalse, "MinimumReplicasUnavailable")
	if read(camera); greenhouse.ResourceVersion != version || camera.Generation != generation {
		t.Errorf("a call without a reason wrote: resource version %s, then %s; generation %d, then %d",
			version, greenhouse.ResourceVersion, generation, camera.Generation)
	}
	same := *meta.FindStatusCondition(greenhouse.Status.Conditions, "CameraAvailable")
	must((&CameraReconciler{Client: withoutStatus{api}}).report(t.Context(), greenhouse, same))

	// Another manager sets a field of ours, which is corrected, and one that is not ours, which stays.
	before := client.MergeFrom(camera.DeepCopy())
	camera.Spec.Replicas, camera.Spec.Template.Spec.Containers[0].Image = new(int32(3)), "goat:v1"
	must(api.Patch(t.Context(), camera, before))
	// The Deployment that Reconcile reads is older than its own apply, so the condition does not cover the corrected
	// image.
	reports(greenhouse, metav1.ConditionUnknown, "NotObserved")
	read(camera)
	if image := camera.Spec.Template.Spec.Containers[0].Image; image != "camera:v1" || *camera.Spec.Replicas != 3 {
		t.Errorf("the camera has the image %s and %d replicas, want camera:v1 and 3", image, *camera.Spec.Replicas)
	}

	other := newGreenhouse("mosses", 5, 15)
	foreign := camera.DeepCopy()
	foreign.ObjectMeta = metav1.ObjectMeta{Namespace: other.Namespace, Name: "mosses-camera"}
	must(api.Create(t.Context(), other), api.Create(t.Context(), foreign))
	reports(other, metav1.ConditionFalse, "NotOurs")
	if read(foreign); len(foreign.OwnerReferences) > 0 || isAppliedBy(foreign, "greenhouse-cameras") {
		t.Errorf("a Deployment of another owner was adopted: %v", foreign.OwnerReferences)
	}
}

// withoutStatus is a client of a reconciler that has no status to write.
type withoutStatus struct{ client.Client }

func (withoutStatus) Status() client.SubResourceWriter {
	panic("a status that is right already is written")
}

func expectCondition(t *testing.T, object client.Object, status metav1.ConditionStatus, reason string) {
	t.Helper()
	got := meta.FindStatusCondition(object.(*playv1.Greenhouse).Status.Conditions, "CameraAvailable")
	if got == nil || got.Status != status || got.Reason != reason || got.ObservedGeneration != object.GetGeneration() {
		t.Errorf("the condition of %s is %+v, want %s for the reason %s", object.GetName(), got, status, reason)
	}
}

func isAppliedBy(object client.Object, manager string) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
	})
}

func TestCameraConditionObservesNewestSpec(t *testing.T) {
	t.Parallel()
	available := appsv1.DeploymentStatus{ObservedGeneration: 4, Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
	}}
	for _, test := range []struct {
		name       string
		generation int64
		status     appsv1.DeploymentStatus
		want       metav1.ConditionStatus
	}{
		{"observed", 4, available, metav1.ConditionTrue},
		{"an older spec", 5, available, metav1.ConditionUnknown},
		{"newer than the generation this call applied", 3, available, metav1.ConditionTrue},
		{"just created", 1, appsv1.DeploymentStatus{}, metav1.ConditionUnknown},
		{"observed, without a condition", 1, appsv1.DeploymentStatus{ObservedGeneration: 1}, metav1.ConditionUnknown},
	} {
		got := cameraCondition(newGreenhouse("ferns", 10, 25), &appsv1.Deployment{Status: test.status}, test.generation)
		if got.Status != test.want || got.Reason == "" {
			t.Errorf("%s: %+v, want %s", test.name, got, test.want)
		}
	}
}
