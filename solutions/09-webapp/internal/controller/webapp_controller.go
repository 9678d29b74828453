// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "lva.io/operators/solutions/09-webapp/api/v1alpha1"
	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

// retryRefused is how long to wait before a refused write is retried: no event says, for example, that another Service
// has released the port. The wait is short enough for a person, and long enough not to be a busy loop.
const retryRefused = 5 * time.Second

// How soon the operator tries again what failed: at first, and at most. The default is 5 ms, 10 ms, and so on up to 16
// minutes. If a webhook of the cluster is down for that long, no event says that it is back.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 5 * time.Second // in real life a minute
)

// WebAppReconciler runs a web server for each WebApp.
type WebAppReconciler struct {
	// Client reads from a cache, which may be a moment behind, and writes to the API server.
	client.Client
	// Scheme knows the kind of a WebApp, which its children name in their owner references.
	Scheme *runtime.Scheme
}

// These markers are the operator's permissions. The operator needs no delete: the garbage collector deletes the
// children. Some API servers require the right to finalizers before they accept blockOwnerDeletion.

// +kubebuilder:rbac:groups=apps.lva.io,resources=webapps,verbs=list;watch
// +kubebuilder:rbac:groups=apps.lva.io,resources=webapps/status,verbs=update
// +kubebuilder:rbac:groups=apps.lva.io,resources=webapps/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;watch;create;update
// +kubebuilder:rbac:groups="",resources=services,verbs=list;watch;create;update

// Reconcile gets the name of a WebApp when the WebApp, or a Deployment or Service of its name, may have changed. It
// brings the children to the desired state, and reports the observed one.
func (r *WebAppReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app, owner, err := r.read(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // Gone in the meantime. The garbage collector deletes its children.
	}
	if !app.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	// Each by itself: that the port is taken is no reason not to repair the Deployment.
	name := metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}
	deployment := &appsv1.Deployment{ObjectMeta: name}
	deploymentProblem, deploymentErr := r.ensure(ctx, owner, "Deployment", deployment,
		func() { setDeployment(deployment, app) })
	service := &corev1.Service{ObjectMeta: name}
	serviceProblem, serviceErr := r.ensure(ctx, owner, "Service", service, func() { setService(service, app) })
	err = errors.Join(deploymentErr, serviceErr)
	if isStale(deploymentErr) || isStale(serviceErr) {
		return ctrl.Result{}, err // The cache is behind, and so would the status be: look again first.
	}

	// An error is reported before it is returned. Otherwise only the operator's log has it, which users of WebApps cannot
	// read.
	err = errors.Join(err, r.writeStatus(ctx, app, owner, deployment, deploymentProblem, serviceProblem))
	if err != nil {
		return ctrl.Result{}, err
	}
	if deploymentProblem != nil || serviceProblem != nil {
		return ctrl.Result{RequeueAfter: retryRefused}, nil
	}
	return ctrl.Result{}, nil
}

// problem says in the status why a child is not as the spec asks.
type problem struct{ reason, message string }

var errNotOurs = errors.New("another controller or user owns it")

// isStale reports whether a write failed because the cache is behind the API server. The next call will see the current
// state. IsConflict would also match a webhook that refuses with the code 409 and no reason, perhaps for ever.
func isStale(err error) bool {
	reason := apierrors.ReasonForError(err)
	return reason == metav1.StatusReasonConflict || reason == metav1.StatusReasonAlreadyExists
}

// ensure creates a child, or updates it if set changes it. An object of its name with another controller, or with none,
// is not ours, and is not touched: CreateOrUpdate creates an object only if there is none of this name, and updates an
// object only in the version that it has read.
//
// A problem without an error is a refusal: the same request at once would end the same. With an error, the request
// failed and may succeed at the next try.
func (r *WebAppReconciler) ensure(
	ctx context.Context, owner client.Object, kind string, child client.Object, set func(),
) (*problem, error) {
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		exists := child.GetResourceVersion() != ""
		if exists && !metav1.IsControlledBy(child, owner) {
			return errNotOurs
		}
		set()
		// With the WebApp as its controller, the child is deleted after it, and Owns finds the WebApp by the child.
		return controllerutil.SetControllerReference(owner, child, r.Scheme)
	})
	if errors.Is(err, errNotOurs) {
		return &problem{
			"NotOurs",
			fmt.Sprintf("The %s %s belongs to another controller or user: rename one of them, or delete it",
				kind, child.GetName()),
		}, nil
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		return &problem{"Refused", fmt.Sprintf("The API server refuses the %s: %v", kind, err)}, nil
	}
	if err != nil {
		err = fmt.Errorf("create or update the %s: %w", kind, err)
		return &problem{"Failed", fmt.Sprintf("The operator will retry: %v", err)}, err
	}
	return nil, nil
}

// writeStatus writes the observed status, if it differs from the one that was read.
func (r *WebAppReconciler) writeStatus(
	ctx context.Context, app *appsv1beta1.WebApp, served client.Object,
	deployment *appsv1.Deployment, problems ...*problem,
) error {
	before := app.Status.DeepCopy()
	app.Status.Selector = labels.SelectorFromSet(selectorLabels(app.Name)).String()
	app.Status.Replicas = 0
	if metav1.IsControlledBy(deployment, app) {
		app.Status.Replicas = deployment.Status.Replicas
	}

	degraded := metav1.Condition{
		Type: appsv1beta1.Degraded, Status: metav1.ConditionFalse, Reason: "AsAsked", Message: "Nothing is in the way",
	}
	var messages []string
	for _, p := range problems {
		if p != nil {
			degraded.Status, degraded.Reason, messages = metav1.ConditionTrue, p.reason, append(messages, p.message)
			degraded.Message = strings.Join(messages, "; ")
		}
	}
	available := metav1.Condition{Type: appsv1beta1.Available, Status: metav1.ConditionFalse}
	switch {
	case degraded.Status == metav1.ConditionTrue:
		available.Reason, available.Message = "Degraded", "See the condition Degraded"
	case !isAvailable(deployment, replicas(app)):
		available.Reason, available.Message = "RollingOut", fmt.Sprintf("Not all of %d Pods are ready", replicas(app))
	case replicas(app) == 0:
		// It is as the spec asks, as a Deployment with 0 replicas is available. But no one is served, and the reason says so.
		available.Status, available.Reason = metav1.ConditionTrue, "ScaledToZero"
		available.Message = fmt.Sprintf("The spec asks for no Pods, so nothing answers on port %d", app.Spec.Port)
	default:
		available.Status, available.Reason = metav1.ConditionTrue, "Served"
		available.Message = fmt.Sprintf("Served on port %d by %d Pods", app.Spec.Port, replicas(app))
	}
	for _, condition := range []metav1.Condition{available, degraded} {
		condition.ObservedGeneration = app.Generation // which spec the condition is about
		meta.SetStatusCondition(&app.Status.Conditions, condition)
	}
	if equality.Semantic.DeepEqual(*before, app.Status) {
		return nil
	}
	// The update carries the resource version that was read: if the cache is behind, this is a conflict, and we look
	// again.
	if err := r.updateStatus(ctx, app, served); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// SetupWithManager registers the controller with the manager, and says which changes lead to a call of Reconcile.
func (r *WebAppReconciler) SetupWithManager(mgr ctrl.Manager) error {
	app, err := newWebApp(mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(app, builder.WithPredicates(notOnlyWords)).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		// An object that is not ours has no owner reference to us, so Owns does not report its deletion, which frees the
		// name.
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(sameName), builder.WithPredicates(deletions)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(sameName), builder.WithPredicates(deletions)).
		Named("webapp").
		WithOptions(options()).
		Complete(r)
}

// options are those of the controller.
func options() controller.Options {
	return controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}

// notOnlyWords lets through every change of a WebApp but one of the message of Degraded alone, while that is True. The
// operator writes it: if that called Reconcile, an error with other words each time (it may have a port or a time in
// it) would be tried again at once, for ever. The next try comes soon anyway, and also corrects words that a user has
// written. Other changes of the status must call it. The retry after an error may find the cache behind, with the
// status of before the error, and then writes nothing.
var notOnlyWords = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return !equality.Semantic.DeepEqual(withoutWords(e.ObjectOld), withoutWords(e.ObjectNew))
}}

// withoutWords is a WebApp of either version without the message of Degraded if that is True, and without what changes
// with each write.
func withoutWords(object client.Object) client.Object {
	object = object.DeepCopyObject().(client.Object)
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	var conditions []metav1.Condition
	switch app := object.(type) {
	case *appsv1alpha1.WebApp:
		conditions = app.Status.Conditions
	case *appsv1beta1.WebApp:
		conditions = app.Status.Conditions
	}
	if is := meta.FindStatusCondition(conditions, appsv1beta1.Degraded); is != nil && is.Status == metav1.ConditionTrue {
		is.Message = ""
	}
	return object
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
