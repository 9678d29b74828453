// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controllers

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	mydomainv1alpha1 "example.com/lolcow-operator/api/v1alpha1"
)

// LolcowReconciler reconciles a Lolcow object
type LolcowReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

//+kubebuilder:rbac:groups=my.domain,resources=lolcows,verbs=get;list;watch;create;update;patch;delete
//+kubebuilder:rbac:groups=my.domain,resources=lolcows/status,verbs=get;update;patch
//+kubebuilder:rbac:groups=my.domain,resources=lolcows/finalizers,verbs=update
//+kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete
//+kubebuilder:rbac:groups=core,resources=services,verbs=get;list;watch;create;update;patch;delete
//+kubebuilder:rbac:groups=core,resources=pods,verbs=get;list

// Reconcile creates the deployment and the service if they are not there, and updates greeting and port.
func (r *LolcowReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := log.FromContext(ctx)

	lolcow := &mydomainv1alpha1.Lolcow{}
	err := r.Get(ctx, req.NamespacedName, lolcow)
	if err != nil {
		if errors.IsNotFound(err) {
			log.Info("Lolcow resource not found. Ignoring since object must be deleted")
			return ctrl.Result{}, nil
		}
		log.Error(err, "Failed to get Lolcow")
		return ctrl.Result{}, err
	}

	// Check if the deployment already exists, if not create a new one
	found := &appsv1.Deployment{}
	err = r.Get(ctx, types.NamespacedName{Name: lolcow.Name, Namespace: lolcow.Namespace}, found)
	if err != nil && errors.IsNotFound(err) {
		dep := r.deploymentForLolcow(lolcow)
		log.Info("Creating a new Deployment", "Deployment.Name", dep.Name)
		if err = r.Create(ctx, dep); err != nil {
			log.Error(err, "Failed to create new Deployment", "Deployment.Name", dep.Name)
			return ctrl.Result{}, err
		}
		return ctrl.Result{Requeue: true}, nil
	} else if err != nil {
		log.Error(err, "Failed to get Deployment")
		return ctrl.Result{}, err
	}

	// Ensure that the greeting is the same as in the spec
	env := found.Spec.Template.Spec.Containers[0].Env
	if len(env) == 0 || env[0].Value != lolcow.Spec.Greeting {
		found.Spec = r.deploymentForLolcow(lolcow).Spec
		if err = r.Update(ctx, found); err != nil {
			log.Error(err, "Failed to update Deployment", "Deployment.Name", found.Name)
			return ctrl.Result{}, err
		}
		return ctrl.Result{Requeue: true}, nil
	}

	service := &corev1.Service{}
	err = r.Get(ctx, types.NamespacedName{Name: lolcow.Name, Namespace: lolcow.Namespace}, service)
	if err != nil && errors.IsNotFound(err) {
		svc := r.serviceForLolcow(lolcow)
		log.Info("Creating a new Service", "Service.Name", svc.Name)
		if err = r.Create(ctx, svc); err != nil {
			log.Error(err, "Failed to create new Service", "Service.Name", svc.Name)
			return ctrl.Result{}, err
		}
		return ctrl.Result{Requeue: true}, nil
	} else if err != nil {
		log.Error(err, "Failed to get Service")
		return ctrl.Result{}, err
	}

	// Ensure that the port is the same as in the spec
	if service.Spec.Ports[0].NodePort != lolcow.Spec.Port {
		service.Spec.Ports[0].NodePort = lolcow.Spec.Port
		if err = r.Update(ctx, service); err != nil {
			log.Error(err, "Failed to update Service", "Service.Name", service.Name)
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

func (r *LolcowReconciler) deploymentForLolcow(l *mydomainv1alpha1.Lolcow) *appsv1.Deployment {
	ls := labelsForLolcow(l.Name)
	replicas := int32(1)
	dep := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: l.Name, Namespace: l.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: ls},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: ls},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Image: "operator-labs/lolcow:v1",
						Name:  "lolcow",
						Env:   []corev1.EnvVar{{Name: "GREETING", Value: l.Spec.Greeting}},
						Ports: []corev1.ContainerPort{{ContainerPort: 8080, Name: "http"}},
					}},
				},
			},
		},
	}
	_ = ctrl.SetControllerReference(l, dep, r.Scheme)
	return dep
}

func (r *LolcowReconciler) serviceForLolcow(l *mydomainv1alpha1.Lolcow) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: l.Name, Namespace: l.Namespace},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeNodePort,
			Selector: labelsForLolcow(l.Name),
			Ports: []corev1.ServicePort{{
				Port: 8080, TargetPort: intstr.FromInt(8080), NodePort: l.Spec.Port,
			}},
		},
	}
	_ = ctrl.SetControllerReference(l, svc, r.Scheme)
	return svc
}

func labelsForLolcow(name string) map[string]string {
	return map[string]string{"app": "lolcow", "lolcow_cr": name}
}

// SetupWithManager sets up the controller with the Manager.
func (r *LolcowReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&mydomainv1alpha1.Lolcow{}).
		// Owns(&corev1.Service{}) is it necessary? to test
		Owns(&appsv1.Deployment{}).
		Complete(r)
}
