// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/audit"
)

// Foreign is a Deployment or a Service that has the name of a child and does not belong to the operator, in its state
// before the owner with that name was created.
type Foreign struct {
	Kind string // Deployment or Service
	types.NamespacedName
	// Ownership describes to whom the object belongs, in words that follow "which".
	Ownership string
	// Is is the object, and Spec its spec.
	Is   metav1.Object
	Spec any
	// Since is a mark that was set after the object was created.
	Since audit.Mark
	// Dying means that the object is being deleted, but not by the operator.
	Dying bool
}

func (f *Foreign) String() string {
	return fmt.Sprintf("the %s %s, which %s,", f.Kind, f.Name, f.Ownership)
}

// These texts explain why an object is foreign, for Foreign.Ownership.
const (
	NoOwner           = "was made by hand and has no owner"
	AnotherController = "has another controller, a ConfigMap"
)

// ControlledByConfigMap creates a ConfigMap, and returns a reference to it as a controller.
func (o *Owners) ControlledByConfigMap(ctx context.Context, namespace, name string) ([]metav1.OwnerReference, error) {
	owner, err := o.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating an owner: %w", err)
	}
	return []metav1.OwnerReference{{
		APIVersion: "v1",
		Kind:       "ConfigMap",
		Name:       owner.Name,
		UID:        owner.UID,
		Controller: new(true),
	}}, nil
}

// ControlledBy returns a reference to an owner as a controller.
func ControlledBy(owner *unstructured.Unstructured) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: owner.GetAPIVersion(),
		Kind:       owner.GetKind(),
		Name:       owner.GetName(),
		UID:        owner.GetUID(),
		Controller: new(true),
	}}
}

// ForeignService creates a Service that does not belong to the operator. Its labels, selector and port are those of
// another application.
func (o *Owners) ForeignService(
	ctx context.Context, suite *check.Suite, name types.NamespacedName, ownership string, owners []metav1.OwnerReference,
) (*Foreign, error) {
	created, err := o.Client.CoreV1().Services(name.Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: name.Name, Namespace: name.Namespace, Labels: map[string]string{"team": "somebody"}, OwnerReferences: owners,
		},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"team": "somebody"},
			Ports:    []corev1.ServicePort{{Name: "web", Port: 8000, TargetPort: intstr.FromInt32(8000)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a Service by hand: %w", err)
	}
	return &Foreign{
		Kind:           "Service",
		NamespacedName: name,
		Ownership:      ownership,
		Is:             created,
		Spec:           created.Spec,
		Since:          suite.Audit.Now(),
	}, nil
}

// ForeignDeployment creates a Deployment that does not belong to the operator. Until Steady it still changes.
func (o *Owners) ForeignDeployment(ctx context.Context, name types.NamespacedName, replicas int32, ownership string,
	owners []metav1.OwnerReference,
) (*Foreign, error) {
	pods := map[string]string{"team": "somebody", "of": name.Name}
	created, err := o.Client.AppsV1().Deployments(name.Namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name.Name,
			Labels:          map[string]string{"team": "somebody"},
			OwnerReferences: owners,
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pods},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pods},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  "somebody",
					Image: "registry.example.com/somebody:v1",
				}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a Deployment by hand: %w", err)
	}
	return &Foreign{Kind: "Deployment", NamespacedName: name, Ownership: ownership, Is: created, Spec: created.Spec}, nil
}

// Steady returns a look at whether the Deployment controller has finished a foreign Deployment, which then has all of
// its Pods. It stores the state of the Deployment in f.
func (o *Owners) Steady(suite *check.Suite, f *Foreign) (observed string, ok bool) {
	is, exists := Named[appsv1.Deployment](o, Deployments, f.NamespacedName)
	f.Is, f.Spec, f.Since = &is, is.Spec, suite.Audit.Now()
	replicas := int32(1)
	if is.Spec.Replicas != nil {
		replicas = *is.Spec.Replicas
	}
	return fmt.Sprintf("it has %d of %d Pods", is.Status.Replicas, replicas),
		exists && is.Status.ObservedGeneration == is.Generation && is.Status.Replicas == replicas
}

// now returns the object as the watch knows it. False: it is gone.
func (o *Owners) now(f *Foreign) (is metav1.Object, spec any, exists bool) {
	if f.Kind == "Service" {
		service, exists := Named[corev1.Service](o, Services, f.NamespacedName)
		return &service, service.Spec, exists
	}
	deployment, exists := Named[appsv1.Deployment](o, Deployments, f.NamespacedName)
	return &deployment, deployment.Spec, exists
}

// controllerManager is the field manager that writes Deployments besides their owner: their revision, and their status.
const controllerManager = "kube-controller-manager"

// writers returns the field managers of an object with their fields, except the Deployment controller.
func writers(object metav1.Object) (all []metav1.ManagedFieldsEntry) {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != controllerManager {
			all = append(all, entry)
		}
	}
	return all
}

// Touched describes what the operator has done to a foreign object. Empty: nothing.
func (o *Owners) Touched(suite *check.Suite, f *Foreign) string {
	wrote := suite.Audit.Since(f.Since, suite.ByOperator().And(audit.Writes, func(e audit.Event) bool {
		return e.Resource == strings.ToLower(f.Kind)+"s" && e.Namespace == f.Namespace && e.Name == f.Name &&
			e.Verb != "create" && e.Code < http.StatusMultipleChoices &&
			(!f.Dying || e.Verb != "delete") // the garbage collector deletes it as well
	}))
	now, spec, exists := o.now(f)
	switch {
	case !exists:
		return "it is gone"
	case now.GetUID() != f.Is.GetUID():
		return "it was deleted, and there is another one"
	case now.GetDeletionTimestamp() != nil && !f.Dying:
		return "it is being deleted"
	case !reflect.DeepEqual(now.GetOwnerReferences(), f.Is.GetOwnerReferences()):
		return "its metadata.ownerReferences are others: it was adopted"
	case !reflect.DeepEqual(spec, f.Spec):
		return "its spec was changed"
	case !reflect.DeepEqual(now.GetLabels(), f.Is.GetLabels()):
		return "its labels were changed"
	case f.Kind == "Service" && !f.Dying && now.GetResourceVersion() != f.Is.GetResourceVersion():
		return fmt.Sprintf("its resourceVersion was %s, and is %s", f.Is.GetResourceVersion(), now.GetResourceVersion())
	case !f.Dying && !reflect.DeepEqual(writers(now), writers(f.Is)):
		return "its metadata.managedFields are others: another client has written it"
	case len(wrote) > 0:
		return "it was written: " + wrote[0].String()
	}
	return ""
}
