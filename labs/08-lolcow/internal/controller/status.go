// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lolcowv1alpha1 "lva.io/operators/labs/08-lolcow/api/v1alpha1"
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
	// TODO(lab): 5. set the three conditions (meta.SetStatusCondition), and write the status if that has changed
	// something.
	return nil
}

// tell writes an Event if the Lolcow became degraded, recovered from it, or became available: one at most. The
// conditions show users the present state. The Events show what happened before.
func (r *LolcowReconciler) tell(lolcow *lolcowv1alpha1.Lolcow, before []metav1.Condition) {
	// TODO(lab): 7. r.Recorder.Eventf, when a condition has another status than before, and only then.
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
	// TODO(lab): 5. from the condition Available of the Deployment, and from what came of the Service.
	return metav1.Condition{Type: lolcowv1alpha1.Available, Status: metav1.ConditionUnknown, Reason: "NotImplemented"}
}

// progressing says whether a change is under way: as `kubectl rollout status` does.
func progressing(seen observation) metav1.Condition {
	// TODO(lab): 5. `kubectl rollout status` waits until all Pods are updated and available, and no old one is left.
	return metav1.Condition{Type: lolcowv1alpha1.Progressing, Status: metav1.ConditionUnknown, Reason: "NotImplemented"}
}

// degraded says whether something is wrong, and what: the first thing that one would have to correct.
func degraded(seen observation) metav1.Condition {
	is := metav1.Condition{
		Type: lolcowv1alpha1.Degraded, Status: metav1.ConditionFalse, Reason: "AsExpected", Message: "Nothing is wrong",
	}
	// TODO(lab): 5. what is wrong with the Pods, or with the Deployment? 6. or was a write refused?
	return is
}

// wrongWithPods looks for a container that can't start. The Deployment's status does not show it: there the Pod is just
// not ready yet.
func wrongWithPods(pods []corev1.Pod) *refusal {
	// TODO(lab): 5. the statuses of the containers have it. Which Pods do not count?
	return nil
}

// wrongWithContainer says why a container does not run. The kubelet's own words change with each attempt (ErrImagePull,
// ImagePullBackOff, ErrImagePull), and each would be a write: these stay the same for as long as the reason does.
func wrongWithContainer(container corev1.ContainerStatus) *refusal {
	// TODO(lab): 5. waiting, and why: an image that can't be pulled (the message names it), or one crash after the
	// other.
	return nil
}

// wrongWithDeployment looks at the Deployment's own conditions: its Pods are refused, by a quota for example, or it has
// waited for too long.
func wrongWithDeployment(deployment *appsv1.Deployment) *refusal {
	// TODO(lab): 5. ReplicaFailure is true, or Progressing is false.
	return nil
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
