// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

// CameraReconciler runs a camera for each greenhouse, and reports whether it is available.
type CameraReconciler struct {
	client.Client
	Image string
}

// Reconcile applies the camera's Deployment, unless a Deployment of this name has another owner, and reports its
// condition.
func (r *CameraReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var greenhouse playv1.Greenhouse
	if err := r.Get(ctx, req.NamespacedName, &greenhouse); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // Deleted: the garbage collector deletes the Deployment.
	}
	if !greenhouse.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	var camera appsv1.Deployment
	err := r.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name + "-camera"}, &camera)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read the camera of %s: %w", req, err)
	}
	if !apierrors.IsNotFound(err) && !metav1.IsControlledBy(&camera, &greenhouse) {
		return ctrl.Result{}, r.report(ctx, &greenhouse, metav1.Condition{
			Type: "CameraAvailable", Status: metav1.ConditionFalse, ObservedGeneration: greenhouse.Generation,
			Reason: "NotOurs", Message: "The Deployment " + camera.Name + " belongs to another owner",
		})
	}
	generation, err := r.applyCamera(ctx, &greenhouse)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, &greenhouse, cameraCondition(&greenhouse, &camera, generation))
}

//lab:begin apply

// applyCamera applies the fields that this operator owns, and returns the generation that the Deployment has now.
func (r *CameraReconciler) applyCamera(ctx context.Context, greenhouse *playv1.Greenhouse) (int64, error) {
	labels := map[string]string{"play.lva.io/camera-of": greenhouse.Name} // A selector is immutable.
	owner := metav1ac.OwnerReference().WithAPIVersion(playv1.GroupVersion.String()).WithKind("Greenhouse").
		WithName(greenhouse.Name).WithUID(greenhouse.UID).WithController(true).WithBlockOwnerDeletion(true)
	container := corev1ac.Container().WithName("camera").WithImage(r.Image)
	camera := appsv1ac.Deployment(greenhouse.Name+"-camera", greenhouse.Namespace).WithOwnerReferences(owner).
		WithSpec(appsv1ac.DeploymentSpec().WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).
				WithSpec(corev1ac.PodSpec().WithContainers(container)))) // no replicas: others own that field
	if err := r.Apply(ctx, camera, client.FieldOwner("greenhouse-cameras"), client.ForceOwnership); err != nil {
		return 0, fmt.Errorf("apply the camera of %s: %w", greenhouse.Name, err)
	}
	return *camera.Generation, nil // Apply has written the API server's answer into camera.
}

//lab:end

//lab:begin condition

// cameraCondition translates the Deployment's condition into one of the greenhouse.
func cameraCondition(greenhouse *playv1.Greenhouse, camera *appsv1.Deployment, generation int64) metav1.Condition {
	condition := metav1.Condition{
		Type: "CameraAvailable", Status: metav1.ConditionUnknown, ObservedGeneration: greenhouse.Generation,
		Reason: "NotObserved", Message: "The Deployment's controller has not observed the newest spec yet",
	}
	if camera.Status.ObservedGeneration < generation {
		return condition // The Deployment's conditions describe an older spec, or there are none yet.
	}
	for _, child := range camera.Status.Conditions {
		if child.Type == appsv1.DeploymentAvailable {
			condition.Status = metav1.ConditionStatus(child.Status)
			condition.Reason, condition.Message = child.Reason, child.Message
		}
	}
	return condition
}

// report writes a condition into the status, and sends no request if it is there already.
func (r *CameraReconciler) report(ctx context.Context, greenhouse *playv1.Greenhouse, now metav1.Condition) error {
	before := client.MergeFromWithOptions(greenhouse.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if !meta.SetStatusCondition(&greenhouse.Status.Conditions, now) {
		return nil
	}
	return client.IgnoreNotFound(r.Status().Patch(ctx, greenhouse, before))
}

//lab:end

// SetupWithManager watches greenhouses, and the Deployments that they own.
func (r *CameraReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&playv1.Greenhouse{}).Owns(&appsv1.Deployment{}).Complete(r)
}
