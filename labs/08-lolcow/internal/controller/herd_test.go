// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	lolcowv1alpha1 "lva.io/operators/labs/08-lolcow/api/v1alpha1"
)

// herd is a namespace with Lolcows, and a reconciler that a test calls itself: so the test decides when it looks, and
// at what.
type herd struct {
	*testing.T
	api        client.WithWatch
	namespace  string
	reconciler *LolcowReconciler
	recorder   *events.FakeRecorder
	writes     int   // of the reconciler
	refusal    error // the answer to the reconciler's writes of Deployments, instead of the API server's
}

func newHerd(t *testing.T) *herd {
	t.Helper()
	h := &herd{T: t, api: apiServer(t), recorder: events.NewFakeRecorder(100)}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "herd-"}}
	h.add(namespace)
	h.namespace = namespace.Name
	h.restart()
	return h
}

// restart begins with a new operator, which remembers nothing.
func (h *herd) restart() {
	counting := interceptor.NewClient(h.api, interceptor.Funcs{
		Apply: func(
			ctx context.Context, c client.WithWatch, what runtime.ApplyConfiguration, options ...client.ApplyOption,
		) error {
			h.writes++
			return h.write(what, func() error { return c.Apply(ctx, what, options...) })
		},
		Create: func(
			ctx context.Context, c client.WithWatch, what client.Object, options ...client.CreateOption,
		) error {
			h.writes++
			return h.write(what, func() error { return c.Create(ctx, what, options...) })
		},
		Update: func(
			ctx context.Context, c client.WithWatch, what client.Object, options ...client.UpdateOption,
		) error {
			h.writes++
			return h.write(what, func() error { return c.Update(ctx, what, options...) })
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, what client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			h.writes++
			return h.write(what, func() error { return c.Patch(ctx, what, patch, options...) })
		},
		SubResourceUpdate: func(
			ctx context.Context, c client.Client, subresource string, what client.Object,
			options ...client.SubResourceUpdateOption,
		) error {
			h.writes++
			return c.SubResource(subresource).Update(ctx, what, options...)
		},
	})
	h.reconciler = &LolcowReconciler{Client: counting, Recorder: h.recorder, BackOff: NewBackOff(), Image: DefaultImage}
}

// write does a write of the reconciler, unless it is refused.
func (h *herd) write(what any, do func() error) error {
	switch what.(type) {
	case *appsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration:
		if h.refusal != nil {
			return h.refusal
		}
	}
	return do()
}

func (h *herd) reconcile(name string) ctrl.Result {
	h.Helper()
	result, err := h.reconciler.Reconcile(h.Context(), ctrl.Request{NamespacedName: h.key(name)})
	h.ok(err)
	return result
}

// fails is reconcile that ends with an error.
func (h *herd) fails(name string) error {
	h.Helper()
	_, err := h.reconciler.Reconcile(h.Context(), ctrl.Request{NamespacedName: h.key(name)})
	if err == nil {
		h.Fatalf("%s is reconciled without an error", name)
	}
	return err
}

// startManager runs the operator as its program does, until the test ends.
func (h *herd) startManager() context.Context {
	h.Helper()
	mgr, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme: h.api.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // each test has a controller of this name
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{h.namespace: {}}},
	})
	h.ok(err)
	reconciler := &LolcowReconciler{
		Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder(FieldOwner), BackOff: NewBackOff(), Image: DefaultImage,
	}
	h.ok(reconciler.SetupWithManager(mgr))
	ctx, stop := context.WithCancel(h.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	h.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			h.Errorf("the manager ends with %v", err)
		}
	})
	return ctx
}

// refuseServices lets the API server answer each write of a Service of the herd with an error whose message is the
// value of a CEL expression, until end is called. It is the error for requests that are too large, which the operator
// does not take for a refusal.
func (h *herd) refuseServices(says string) (end func()) {
	h.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: h.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: h.namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"},
					},
				}}},
			},
			Validations: []admissionv1.Validation{{
				Expression: "false", MessageExpression: says, Reason: new(metav1.StatusReasonRequestEntityTooLarge),
			}},
		},
	}
	h.add(policy)
	h.add(&admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: h.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: h.namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	})
	h.untilServices(false)
	return func() {
		h.Helper()
		h.delete(policy)
		h.untilServices(true)
	}
}

// untilServices waits until the API server accepts Services, or refuses them: it reads policies by a watch.
func (h *herd) untilServices(accepted bool) {
	h.Helper()
	probe := func(ctx context.Context) (bool, error) {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: h.namespace},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		err := h.api.Create(ctx, service, client.DryRunAll)
		if err != nil && !apierrors.IsRequestEntityTooLargeError(err) {
			return false, err
		}
		return (err == nil) == accepted, nil
	}
	h.ok(wait.PollUntilContextTimeout(h.Context(), 20*time.Millisecond, 30*time.Second, true, probe))
}

func (h *herd) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *herd) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: h.namespace, Name: name}
}

func (h *herd) add(object client.Object) {
	h.Helper()
	h.ok(h.api.Create(h.Context(), object))
}

func (h *herd) update(object client.Object) {
	h.Helper()
	h.ok(h.api.Update(h.Context(), object))
}

func (h *herd) updateStatus(object client.Object) {
	h.Helper()
	h.ok(h.api.Status().Update(h.Context(), object))
}

func (h *herd) delete(object client.Object) {
	h.Helper()
	h.ok(h.api.Delete(h.Context(), object))
}

func (h *herd) create(name string, port int32, greeting string) *lolcowv1alpha1.Lolcow {
	h.Helper()
	cow := &lolcowv1alpha1.Lolcow{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: h.namespace},
		Spec:       lolcowv1alpha1.LolcowSpec{Greeting: greeting, Port: port},
	}
	h.add(cow)
	return cow
}

func (h *herd) change(name string, change func(*lolcowv1alpha1.Lolcow)) {
	h.Helper()
	cow := h.lolcow(name)
	change(cow)
	h.update(cow)
}

func (h *herd) lolcow(name string) *lolcowv1alpha1.Lolcow {
	h.Helper()
	var cow lolcowv1alpha1.Lolcow
	h.ok(h.api.Get(h.Context(), h.key(name), &cow))
	return &cow
}

func (h *herd) deployment(name string) *appsv1.Deployment {
	h.Helper()
	var deployment appsv1.Deployment
	h.ok(h.api.Get(h.Context(), h.key(name), &deployment))
	return &deployment
}

func (h *herd) service(name string) *corev1.Service {
	h.Helper()
	var service corev1.Service
	h.ok(h.api.Get(h.Context(), h.key(name), &service))
	return &service
}

// greeting is the greeting in the Deployment.
func (h *herd) greeting(name string) string {
	h.Helper()
	for _, variable := range h.deployment(name).Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "GREETING" {
			return variable.Value
		}
	}
	return ""
}

// rollOut sets the status as the Deployment's controller does when all Pods are up to date.
func (h *herd) rollOut(name string, conditions ...appsv1.DeploymentCondition) {
	h.Helper()
	deployment := h.deployment(name)
	replicas := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation,
		Replicas:           replicas,
		UpdatedReplicas:    replicas,
		ReadyReplicas:      replicas,
		AvailableReplicas:  replicas,
		Conditions:         conditions,
	}
	h.updateStatus(deployment)
}

// is fails unless a condition has the status, for the generation of now; where reason and message are given, they must
// match.
func (h *herd) is(name, condition string, status metav1.ConditionStatus, message string) {
	h.Helper()
	cow := h.lolcow(name)
	is := meta.FindStatusCondition(cow.Status.Conditions, condition)
	if is == nil || is.Status != status || is.ObservedGeneration != cow.Generation ||
		!strings.Contains(is.Message, message) {
		h.Errorf("%s has the condition %+v, want %s %s: %q, for generation %d",
			name, is, condition, status, message, cow.Generation)
	}
}

// told fails unless exactly so many Warnings were written since its last call, and at most so many Events in all: one
// for each condition whose status has changed. The task leaves their reasons open.
func (h *herd) told(warnings, most int) {
	h.Helper()
	var all []string
	for len(h.recorder.Events) > 0 {
		all = append(all, <-h.recorder.Events)
	}
	warned := 0
	for _, event := range all {
		if strings.HasPrefix(event, corev1.EventTypeWarning+" ") {
			warned++
		}
	}
	if warned != warnings || len(all) > most {
		h.Errorf("it wrote the Events %q, want %d Warnings and at most %d Events in all", all, warnings, most)
	}
}
