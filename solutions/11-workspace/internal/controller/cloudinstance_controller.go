// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	cloudv1alpha1 "lva.io/operators/solutions/11-workspace/api/v1alpha1"
	"lva.io/operators/solutions/11-workspace/internal/cloud"
)

// finalizer keeps a CloudInstance from going as long as its instance costs money.
const finalizer = "cloud.lva.io/instance"

// How soon the operator looks at an instance again. The cloud sends no events.
const (
	soon  = 100 * time.Millisecond // while it starts
	later = 500 * time.Millisecond // while it runs: in real life minutes, since each look is a request that is counted
)

// How soon the operator tries again what failed: at first, and at most. The default is 5 ms, 10 ms, and so on up to 16
// minutes: after an outage of that length the cloud would work again for as long before we noticed.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 500 * time.Millisecond // in real life a minute
)

// workers is how many objects are looked after at once. One of them may wait for an answer that never comes, while the
// others work. If so many requests have no answer at once, all objects wait until one times out: the more objects a
// cloud may keep waiting, the more workers.
const workers = 4

// CloudInstanceReconciler gives each CloudInstance one instance in the cloud.
type CloudInstanceReconciler struct {
	// Client reads CloudInstances from a cache, which may be a moment behind, and writes to the API server.
	client.Client
	// APIReader reads from the API server itself. All Workspaces are read with it: the operator must see its last write,
	// and a read through Client would begin to watch them all.
	APIReader client.Reader
	Scheme    *runtime.Scheme
	// Cloud is where the instances are. It is no part of Kubernetes: nothing there is undone when a write here fails.
	Cloud *cloud.Client
}

// These markers are the operator's permissions. `make manifests` writes config/rbac/role.yaml from them.

// +kubebuilder:rbac:groups=cloud.lva.io,resources=cloudinstances,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cloud.lva.io,resources=cloudinstances/status,verbs=update
// +kubebuilder:rbac:groups=cloud.lva.io,resources=cloudinstances/finalizers,verbs=update
//lab:begin rbac
// +kubebuilder:rbac:groups=cloud.lva.io,resources=workspaces,verbs=get;create;update;delete
//lab:else
// // TODO(lab): 1. The operator gets Workspaces by name, and creates, updates and deletes them. It never lists or
// // watches them.
//lab:end

// Reconcile gets the name of a CloudInstance, and does not learn what has changed. It looks at the spec, the Workspace
// and the cloud, and does what is missing. It writes its observations into the status, and never reads the status.
func (r *CloudInstanceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var object cloudv1alpha1.CloudInstance
	if err := r.Get(ctx, req.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // Gone in the meantime: nothing is left to do.
	}
	//lab:begin paused
	if object.Spec.Paused {
		instance, err := r.observe(ctx, &object)
		if err != nil {
			return ctrl.Result{}, errors.Join(err, r.report(ctx, &object, nil, err))
		}
		if err := r.report(ctx, &object, instance, errPaused); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: later}, nil
	}
	//lab:else
	// // TODO(lab): 7. While spec.paused is true, leave everything as it is: also if it is being deleted. Look at the
	// // instance (observe, in instance.go), report it with errPaused, and look again later.
	//lab:end
	if !object.DeletionTimestamp.IsZero() {
		err := r.finalize(ctx, &object)
		return ctrl.Result{}, errors.Join(err, r.report(ctx, &object, nil, err)) // An object that stays says why.
	}
	if err := r.addFinalizer(ctx, &object); err != nil {
		// Without it the object could be deleted while its instance still runs.
		return ctrl.Result{}, errors.Join(err, r.report(ctx, &object, nil, err))
	}
	instance, err := r.ensure(ctx, &object)
	if err := errors.Join(err, r.report(ctx, &object, instance, err)); err != nil {
		return ctrl.Result{}, err // The work queue calls us again: soon at first, then later and later.
	}
	if instance == nil || instance.State != cloud.Running {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	return ctrl.Result{RequeueAfter: later}, nil
}

// finalize ends the instance of a CloudInstance that is being deleted, so that it does not cost money any longer.
// Reconcile reports its error, whichever step it comes from.
func (r *CloudInstanceReconciler) finalize(ctx context.Context, object *cloudv1alpha1.CloudInstance) error {
	//lab:begin finalize
	if !controllerutil.ContainsFinalizer(object, finalizer) {
		return nil
	}
	workspace, err := r.workspace(ctx, object)
	switch {
	case err != nil && !errors.Is(err, errTaken):
		return err
	case workspace == nil:
		// Nothing was launched, or our part is done, or a user has edited the Workspace. The cloud knows which.
		err = r.endFound(ctx, object)
	default:
		if err = r.end(ctx, object, workspace); err == nil {
			err = r.discard(ctx, workspace)
		}
	}
	if err != nil {
		return err
	}
	return r.removeFinalizer(ctx, object)
	//lab:else
	// // TODO(lab): 5. Without our finalizer there is nothing to do. If there is a Workspace of this object, and not
	// // another's (errTaken), end its instance (end, in instance.go) and delete it (discard). Remove the finalizer
	// // when all of that has worked, and not before.
	// return nil
	//lab:end
}

// addFinalizer puts our finalizer on a CloudInstance, unless it is there. An error means that it is not there.
func (r *CloudInstanceReconciler) addFinalizer(ctx context.Context, object *cloudv1alpha1.CloudInstance) error {
	read := object.DeepCopy()
	if !controllerutil.AddFinalizer(object, finalizer) {
		return nil
	}
	if err := r.Patch(ctx, object, changesSince(read)); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	return nil
}

// removeFinalizer takes our finalizer off. If it was the last one, the CloudInstance is gone.
func (r *CloudInstanceReconciler) removeFinalizer(ctx context.Context, object *cloudv1alpha1.CloudInstance) error {
	read := object.DeepCopy()
	controllerutil.RemoveFinalizer(object, finalizer)
	if err := r.Patch(ctx, object, changesSince(read)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// changesSince makes a patch of the changes since a CloudInstance was read. The finalizers of all controllers are one
// list, which the patch writes as a whole. So it carries the resource version: if another client has changed the
// object, the API server returns a conflict.
func changesSince(read *cloudv1alpha1.CloudInstance) client.Patch {
	return client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{})
}

// errPaused is why nothing happens to a CloudInstance that is paused.
var errPaused = errors.New("spec.paused is true")

// report writes the observations into the status: an instance, or the reason why there is none. With neither, the cloud
// does not show the instance yet, and the status stays as it is.
func (r *CloudInstanceReconciler) report(
	ctx context.Context, object *cloudv1alpha1.CloudInstance, instance *cloud.Instance, problem error,
) error {
	if instance == nil && problem == nil {
		return nil
	}
	ready, known := verdict(instance, problem)
	if !known {
		return nil
	}
	ready.ObservedGeneration = object.Generation
	observed := object.DeepCopy()
	//lab:begin status
	if instance != nil {
		observed.Status.InstanceID, observed.Status.State = instance.ID, instance.State
	}
	meta.SetStatusCondition(&observed.Status.Conditions, ready)
	//lab:else
	// // TODO(lab): 4. If there is an instance, put its ID and its state into observed.Status. Set the condition in any
	// // case.
	// _ = ready
	//lab:end
	if equality.Semantic.DeepEqual(object.Status, observed.Status) {
		return nil
	}
	if err := r.Status().Update(ctx, observed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// verdict returns the condition Ready for an observation. The reason is for programs, and for people who have to act,
// so the cloud, the API server and all other errors have reasons of their own. known is false if there is nothing that
// a user has to know.
func verdict(instance *cloud.Instance, problem error) (ready metav1.Condition, known bool) {
	ready = metav1.Condition{Type: cloudv1alpha1.Ready, Status: metav1.ConditionFalse}
	switch {
	case errors.Is(problem, errPaused):
		ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, "Paused",
			"The operator leaves the cloud as it is, since "+problem.Error()
	case errors.Is(problem, errTaken):
		ready.Reason, ready.Message = "WorkspaceTaken", problem.Error()
	case cloud.IsConflict(problem), errors.Is(problem, errForeign):
		ready.Reason, ready.Message = "BelongsToAnother", problem.Error()
	case cloud.IsNotFound(problem):
		ready.Reason, ready.Message = "NotFound", problem.Error()
	case cloud.IsUnavailable(problem):
		ready.Reason, ready.Message = "CloudUnavailable", problem.Error()
	case cloud.IsRefused(problem):
		ready.Reason, ready.Message = "CloudRefused", problem.Error()
	case apierrors.IsConflict(problem), apierrors.IsAlreadyExists(problem), errors.Is(problem, errStale):
		return ready, false // We were too slow, or knew too little. The next call looks again.
	case isUnavailable(problem):
		ready.Reason, ready.Message = "APIServerUnavailable", problem.Error()
	case problem != nil:
		ready.Reason, ready.Message = "ReconcileFailed", problem.Error() // The message has the error.
	case instance.State == cloud.Running:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, "Running", "The instance runs"
	default:
		ready.Reason, ready.Message = "NotRunning", "The instance is "+instance.State
	}
	return ready, true
}

// isUnavailable is true if the API server is in trouble: it does not answer, it throttles (429), or it fails (5xx), for
// example because a webhook is down. If it refuses something, it is well: a right is missing (403), say, or a policy
// does not allow it (422).
func isUnavailable(err error) bool {
	if answer, ok := errors.AsType[*apierrors.StatusError](err); ok {
		code := answer.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	_, unanswered := errors.AsType[*url.Error](err) // net/http returns it, and client-go wraps it.
	return unanswered
}

// SetupWithManager registers the controller with the manager, and says which changes lead to a call of Reconcile.
// Changes of Workspaces do not: only the operator writes them.
func (r *CloudInstanceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&cloudv1alpha1.CloudInstance{}).
		Named("cloudinstance").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry),
		}).
		Complete(r)
}
