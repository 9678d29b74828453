// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var icecreamlog = logf.Log.WithName("icecream-webhook")

// SetupWebhookWithManager registers both webhooks with the manager
func (r *Icecream) SetupWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr).
		For(r).
		Complete()
}

// +kubebuilder:webhook:path=/mutate-demo-lva-io-v1-icecream,mutating=true,failurePolicy=fail,sideEffects=None,groups=demo.lva.io,resources=icecreams,verbs=create;update,versions=v1,name=micecream.kb.io,admissionReviewVersions=v1

var _ webhook.Defaulter = &Icecream{}

// Default gives an icecream without flavour the one that everybody likes
func (r *Icecream) Default() {
	icecreamlog.Info("default", "name", r.Name)

	if len(r.Spec.Flavour) == 0 {
		r.Spec.Flavour = []string{"vanilla"}
	}
}

// +kubebuilder:webhook:path=/validate-demo-lva-io-v1-icecream,mutating=false,failurePolicy=fail,sideEffects=None,groups=demo.lva.io,resources=icecreams,verbs=create;update;delete,versions=v1,name=vicecream.kb.io,admissionReviewVersions=v1

var _ webhook.Validator = &Icecream{}

// ValidateCreate allows only the flavours that we have
func (r *Icecream) ValidateCreate() (admission.Warnings, error) {
	icecreamlog.Info("validate create", "name", r.Name)

	for _, flavour := range r.Spec.Flavour {
		switch flavour {
		case "vanilla", "chocolate", "strawberry":
		default:
			return nil, fmt.Errorf("invalid flavour: %s", flavour)
		}
	}
	return nil, nil
}

// ValidateUpdate is called when an icecream is changed
func (r *Icecream) ValidateUpdate(_ runtime.Object) (admission.Warnings, error) {
	icecreamlog.Info("validate update", "name", r.Name)

	// TODO: check the flavours here as well
	return nil, nil
}

// ValidateDelete is called before an icecream is deleted
func (r *Icecream) ValidateDelete() (admission.Warnings, error) {
	icecreamlog.Info("validate delete", "name", r.Name)

	return nil, nil
}
