// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lolcowv1alpha1 "lva.io/operators/solutions/08-lolcow/api/v1alpha1"
)

// observation is what one call of Reconcile has seen of the children.
type observation struct {
	// deployment is nil if it has been applied just now, and with an error also if there is none of ours.
	deployment *appsv1.Deployment
	// deploymentErr and serviceErr are refusals, other errors, or nil.
	deploymentErr, serviceErr error
	pods                      []corev1.Pod
}

// writeStatus writes the conditions if they differ from those that were read, and then records an Event. If the write
// fails, Reconcile is called again, and the Event is recorded then. So each change leads to one Event.
func (r *LolcowReconciler) writeStatus(ctx context.Context, lolcow *lolcowv1alpha1.Lolcow, seen observation) error {
	//lab:begin write-status
	before := slices.Clone(lolcow.Status.Conditions)
	for _, condition := range []metav1.Condition{available(lolcow, seen), progressing(seen), degraded(seen)} {
		condition.ObservedGeneration = lolcow.Generation
		meta.SetStatusCondition(&lolcow.Status.Conditions, condition)
	}
	if equality.Semantic.DeepEqual(before, lolcow.Status.Conditions) {
		return nil
	}
	// The update carries the resource version that was read: if the cache is behind, this is a conflict, and neither the
	// status nor the Event is of something that is over.
	if err := r.Status().Update(ctx, lolcow); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // Gone in the meantime: no Event is needed.
		}
		return fmt.Errorf("write the status: %w", err)
	}
	r.tell(lolcow, before)
	return nil
	//lab:else
	// // TODO(lab): 5. set the three conditions (meta.SetStatusCondition), and write the status if that has changed
	// // something.
	// return nil
	//lab:end
}

// tell writes an Event if the Lolcow became degraded, recovered from it, or became available: one at most. The
// conditions show users the present state. The Events show what happened before.
func (r *LolcowReconciler) tell(lolcow *lolcowv1alpha1.Lolcow, before []metav1.Condition) {
	//lab:begin tell
	became := func(condition string, status metav1.ConditionStatus) bool {
		return meta.IsStatusConditionPresentAndEqual(lolcow.Status.Conditions, condition, status) &&
			!meta.IsStatusConditionPresentAndEqual(before, condition, status)
	}
	now := meta.FindStatusCondition(lolcow.Status.Conditions, lolcowv1alpha1.Degraded)
	switch {
	case became(lolcowv1alpha1.Degraded, metav1.ConditionTrue):
		r.Recorder.Eventf(lolcow, nil, corev1.EventTypeWarning, now.Reason, "Reconcile", "%s", note(now.Message))
	case len(before) > 0 && became(lolcowv1alpha1.Degraded, metav1.ConditionFalse):
		r.Recorder.Eventf(lolcow, nil, corev1.EventTypeNormal, "Recovered", "Reconcile", "What was wrong is over")
	case became(lolcowv1alpha1.Available, metav1.ConditionTrue):
		r.Recorder.Eventf(lolcow, nil, corev1.EventTypeNormal, "Available", "Reconcile",
			"The page is served on port %d", lolcow.Spec.Port)
	}
	//lab:else
	// // TODO(lab): 7. r.Recorder.Eventf, when a condition has another status than before, and only then.
	//lab:end
}

// noteLimit is how long the API server lets the note of an Event be, in bytes. It refuses a longer one, and the
// recorder only logs that.
const noteLimit = 1024

// note shortens a message, which may have the whole text of an error in it, for an Event.
func note(message string) string {
	const more = "…"
	if len(message) <= noteLimit {
		return message
	}
	return strings.ToValidUTF8(message[:noteLimit-len(more)], "") + more
}

// available says whether the page is served where the spec says.
func available(lolcow *lolcowv1alpha1.Lolcow, seen observation) metav1.Condition {
	//lab:begin available
	is := metav1.Condition{Type: lolcowv1alpha1.Available, Status: metav1.ConditionFalse}
	switch {
	case seen.serviceErr != nil:
		is.Reason, is.Message = "NoService", fmt.Sprintf("Nothing is served on port %d", lolcow.Spec.Port)
	case seen.deployment == nil && seen.deploymentErr == nil &&
		meta.IsStatusConditionTrue(lolcow.Status.Conditions, is.Type):
		// It has just been applied. That ends no Pod that is there: until we know better, it is as it was.
		return *meta.FindStatusCondition(lolcow.Status.Conditions, is.Type)
	case seen.deployment != nil && *seen.deployment.Spec.Replicas == 0:
		// The Deployment is available then, since it has as many Pods as it should have. But nothing serves the page.
		is.Reason, is.Message = "ScaledToZero",
			fmt.Sprintf("The Deployment is scaled to 0 Pods, so nothing answers on port %d", lolcow.Spec.Port)
	case seen.deployment == nil, seen.deployment.Status.AvailableReplicas == 0,
		!deploymentIs(seen.deployment, appsv1.DeploymentAvailable, corev1.ConditionTrue):
		is.Reason, is.Message = "NoPods", "No Pod is ready to answer"
	default:
		is.Status, is.Reason, is.Message = metav1.ConditionTrue, "Served",
			fmt.Sprintf("The page is served on port %d", lolcow.Spec.Port)
	}
	return is
	//lab:else
	// // TODO(lab): 5. from the condition Available of the Deployment, and from what came of the Service.
	// return metav1.Condition{Type: lolcowv1alpha1.Available, Status: metav1.ConditionUnknown, Reason: "NotImplemented"}
	//lab:end
}

// progressing says whether a change is under way: as `kubectl rollout status` does.
func progressing(seen observation) metav1.Condition {
	//lab:begin progressing
	is := metav1.Condition{Type: lolcowv1alpha1.Progressing, Status: metav1.ConditionFalse}
	deployment := seen.deployment
	switch {
	case seen.deploymentErr != nil:
		is.Reason, is.Message = "NotApplied", "The Deployment can't be brought up to date"
	case deployment == nil || deployment.Status.ObservedGeneration < deployment.Generation:
		is.Status, is.Reason, is.Message = metav1.ConditionTrue, "Applied", "The Deployment was changed"
	case deploymentIs(deployment, appsv1.DeploymentProgressing, corev1.ConditionFalse):
		is.Reason, is.Message = "Stuck", "The Deployment makes no progress"
	case !rolledOut(deployment):
		is.Status, is.Reason, is.Message = metav1.ConditionTrue, "RollingOut", "Pods are being replaced"
	default:
		is.Reason, is.Message = "RolledOut", "All Pods are up to date"
	}
	return is
	//lab:else
	// // TODO(lab): 5. `kubectl rollout status` waits until all Pods are updated and available, and no old one is left.
	// return metav1.Condition{Type: lolcowv1alpha1.Progressing, Status: metav1.ConditionUnknown, Reason: "NotImplemented"}
	//lab:end
}

// degraded says whether something is wrong, and what: the first thing that one would have to correct.
func degraded(seen observation) metav1.Condition {
	is := metav1.Condition{
		Type: lolcowv1alpha1.Degraded, Status: metav1.ConditionFalse, Reason: "AsExpected", Message: "Nothing is wrong",
	}
	//lab:begin degraded
	// A refusal comes before an error: a person has to resolve it, while for an error the next retry may be
	// enough.
	refused, _ := errors.AsType[*refusal](errors.Join(seen.deploymentErr, seen.serviceErr))
	failed := failure(cmp.Or(seen.deploymentErr, seen.serviceErr))
	if wrong := cmp.Or(refused, failed, wrongWithPods(seen.pods), wrongWithDeployment(seen.deployment)); wrong != nil {
		is.Status, is.Reason, is.Message = metav1.ConditionTrue, wrong.reason, wrong.message
	}
	return is
	//lab:else
	// // TODO(lab): 5. what is wrong with the Pods, or with the Deployment? 6. or was a write refused?
	// return is
	//lab:end
}

// wrongWithPods looks for a container that can't start. The Deployment's status does not show it: there the Pod is just
// not ready yet.
func wrongWithPods(pods []corev1.Pod) *refusal {
	//lab:begin wrong-with-pods
	// The order of a list from the cache is by chance, and a status that changes by chance is written for ever.
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range pods {
		// A Pod that has ended, because it was evicted, for example, may stay for hours: another one has replaced it.
		ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		if ended || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if wrong := wrongWithContainer(container); wrong != nil {
				return wrong
			}
		}
	}
	return nil
	//lab:else
	// // TODO(lab): 5. the statuses of the containers have it. Which Pods do not count?
	// return nil
	//lab:end
}

// wrongWithContainer says why a container does not run. The kubelet's own words change with each attempt (ErrImagePull,
// ImagePullBackOff, ErrImagePull), and each would be a write: these stay the same for as long as the reason does.
func wrongWithContainer(container corev1.ContainerStatus) *refusal {
	//lab:begin wrong-with-container
	var waiting string
	if container.State.Waiting != nil {
		waiting = container.State.Waiting.Reason
	}
	switch waiting {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		return &refusal{
			"ImageUnavailable",
			fmt.Sprintf("Container %s: the image %s can't be pulled", container.Name, container.Image),
		}
	case "", "ContainerCreating", "PodInitializing", "CrashLoopBackOff":
		// Between two crashes it runs for a moment. So it counts as crashing until it is ready.
		if container.RestartCount > 0 && !container.Ready {
			return &refusal{
				"CrashLooping",
				fmt.Sprintf("Container %s ends again and again: see its log (kubectl logs --previous)", container.Name),
			}
		}
		return nil
	default:
		return &refusal{"ContainerWaiting", fmt.Sprintf("Container %s can't be started: %s", container.Name, waiting)}
	}
	//lab:else
	// // TODO(lab): 5. waiting, and why: an image that can't be pulled (the message names it), or one crash after the
	// // other.
	// return nil
	//lab:end
}

// wrongWithDeployment looks at the Deployment's own conditions: its Pods are refused, by a quota for example, or it has
// waited for too long.
func wrongWithDeployment(deployment *appsv1.Deployment) *refusal {
	//lab:begin wrong-with-deployment
	if deployment == nil {
		return nil
	}
	for _, condition := range deployment.Status.Conditions {
		switch {
		case condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue:
			return &refusal{"PodsRefused", condition.Message}
		case condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse:
			return &refusal{condition.Reason, condition.Message}
		}
	}
	return nil
	//lab:else
	// // TODO(lab): 5. ReplicaFailure is true, or Progressing is false.
	// return nil
	//lab:end
}

// deploymentIs reports whether a condition of a Deployment has a status.
func deploymentIs(
	deployment *appsv1.Deployment, condition appsv1.DeploymentConditionType, status corev1.ConditionStatus,
) bool {
	return slices.ContainsFunc(deployment.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == condition && c.Status == status
	})
}

// rolledOut reports whether all Pods of a Deployment are of its newest template, and available.
func rolledOut(deployment *appsv1.Deployment) bool {
	status := deployment.Status
	return status.UpdatedReplicas == *deployment.Spec.Replicas &&
		status.Replicas == status.UpdatedReplicas &&
		status.AvailableReplicas == status.UpdatedReplicas
}
