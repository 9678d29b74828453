// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "lva.io/operators/solutions/09-webapp/api/v1alpha1"
)

// retryRefused is how long to wait before asking again for what the API server has refused: nothing else tells us, for example, that
// somebody has left the port. The time is short enough for a person who waits, and no loop.
const retryRefused = 5 * time.Second

// WebAppReconciler runs a web server for each WebApp.
type WebAppReconciler struct {
	// Client reads from a cache, which may be a moment behind, and writes to the API server.
	client.Client
	// Scheme knows the kind of a WebApp, which its children name in their owner references.
	Scheme *runtime.Scheme
}

// What the operator may do, and no more. It needs no right to delete: the garbage collector does that. The right to finalizers is for API
// servers that ask whether we may set blockOwnerDeletion.

// +kubebuilder:rbac:groups=apps.lva.io,resources=webapps,verbs=list;watch
// +kubebuilder:rbac:groups=apps.lva.io,resources=webapps/status,verbs=update
// +kubebuilder:rbac:groups=apps.lva.io,resources=webapps/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;watch;create;update
// +kubebuilder:rbac:groups="",resources=services,verbs=list;watch;create;update

// Reconcile is told the name of a WebApp about which something may have changed: itself, or what has its name. It brings the children to
// what the spec says, and reports what there is.
func (r *WebAppReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var app appsv1alpha1.WebApp
	if err := r.Get(ctx, req.NamespacedName, &app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // Gone in the meantime, and its children go with it.
	}
	if !app.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	// Each by itself: that the port is taken is no reason not to repair the Deployment.
	name := metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}
	deployment := &appsv1.Deployment{ObjectMeta: name}
	deploymentRefused, deploymentErr := r.ensure(ctx, &app, "Deployment", deployment, func() { setDeployment(deployment, &app) })
	service := &corev1.Service{ObjectMeta: name}
	serviceRefused, serviceErr := r.ensure(ctx, &app, "Service", service, func() { setService(service, &app) })
	// A conflict, or no answer: that is tried again at once, and the status would say nothing that is still true by then.
	if err := errors.Join(deploymentErr, serviceErr); err != nil {
		return ctrl.Result{}, err
	}

	if err := r.writeStatus(ctx, &app, deployment, deploymentRefused, serviceRefused); err != nil {
		return ctrl.Result{}, err
	}
	if deploymentRefused != nil || serviceRefused != nil {
		return ctrl.Result{RequeueAfter: retryRefused}, nil
	}
	return ctrl.Result{}, nil
}

// refusal says why a child can't be as the spec asks. It is what the status tells, and no error: trying again at once would end the same.
type refusal struct{ reason, message string }

var errNotOurs = errors.New("it belongs to somebody else")

// ensure creates or updates a child, so that it is as set makes it. If it is, nothing is written. What has another controller, or none, is
// somebody else's whatever its name, and is not touched: CreateOrUpdate creates only where there is nothing, and updates only what it has
// read.
func (r *WebAppReconciler) ensure(
	ctx context.Context, app *appsv1alpha1.WebApp, kind string, child client.Object, set func(),
) (*refusal, error) {
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		exists := child.GetResourceVersion() != ""
		if exists && !metav1.IsControlledBy(child, app) {
			return errNotOurs
		}
		set()
		// With the WebApp as its controller, the child is deleted after it, and Owns finds the WebApp by the child.
		return controllerutil.SetControllerReference(app, child, r.Scheme)
	})
	if errors.Is(err, errNotOurs) {
		return &refusal{"NotOurs", fmt.Sprintf("The %s %s belongs to somebody else: rename one of them, or delete it", kind, child.GetName())}, nil
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		return &refusal{"Refused", fmt.Sprintf("The API server refuses the %s: %v", kind, err)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("create or update the %s: %w", kind, err)
	}
	return nil, nil
}

// writeStatus writes what was observed, if it is not what was read.
func (r *WebAppReconciler) writeStatus(ctx context.Context, app *appsv1alpha1.WebApp, deployment *appsv1.Deployment, refusals ...*refusal) error {
	before := app.Status.DeepCopy()
	app.Status.Selector = labels.SelectorFromSet(selectorLabels(app.Name)).String()
	app.Status.Replicas = 0
	if metav1.IsControlledBy(deployment, app) {
		app.Status.Replicas = deployment.Status.Replicas
	}

	degraded := metav1.Condition{Type: appsv1alpha1.Degraded, Status: metav1.ConditionFalse, Reason: "AsAsked", Message: "Nothing is in the way"}
	for _, refused := range refusals {
		if refused != nil {
			degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, refused.reason, refused.message
			break
		}
	}
	available := metav1.Condition{Type: appsv1alpha1.Available, Status: metav1.ConditionFalse}
	switch {
	case degraded.Status == metav1.ConditionTrue:
		available.Reason, available.Message = "Degraded", "See the condition Degraded"
	case !isAvailable(deployment, replicas(app)):
		available.Reason, available.Message = "RollingOut", fmt.Sprintf("Not all of %d Pods are ready", replicas(app))
	default:
		available.Status, available.Reason = metav1.ConditionTrue, "Served"
		available.Message = fmt.Sprintf("Served on port %d by %d Pods", app.Spec.NodePortNumber, replicas(app))
	}
	for _, condition := range []metav1.Condition{available, degraded} {
		condition.ObservedGeneration = app.Generation // which spec the condition is about
		meta.SetStatusCondition(&app.Status.Conditions, condition)
	}
	if equality.Semantic.DeepEqual(*before, app.Status) {
		return nil
	}
	// The update carries the resource version that was read: if the cache is behind, this is a conflict, and we look again.
	if err := r.Status().Update(ctx, app); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// SetupWithManager tells the manager which changes lead to a call of Reconcile.
func (r *WebAppReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&appsv1alpha1.WebApp{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		// What is not ours has no owner reference to us, so Owns does not tell when it goes. Then the name is free.
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(sameName), builder.WithPredicates(deletions)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(sameName), builder.WithPredicates(deletions)).
		Named("webapp").
		Complete(r)
}

// deletions lets nothing through but what has been deleted.
var deletions = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func sameName(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
}
