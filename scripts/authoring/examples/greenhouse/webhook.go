// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

// needs is the lowest temperature that a plant survives. A table is a reason to write a webhook: it outgrows an
// expression.
var needs = map[string]int32{"cactus": 5, "lemon": 8, "orchid": 16}

//lab:begin webhook

// +kubebuilder:webhook:path=/validate-play-lva-io-v1-greenhouse,mutating=false,failurePolicy=fail,sideEffects=None,groups=play.lva.io,resources=greenhouses,verbs=create,versions=v1,name=validate.greenhouse.play.lva.io,admissionReviewVersions=v1,timeoutSeconds=5

// Validator refuses greenhouses in which a plant would freeze.
type Validator struct{}

// ValidateCreate collects all mistakes, so that the gardener can correct them at once.
func (Validator) ValidateCreate(
	_ context.Context, greenhouse *playv1.Greenhouse,
) (admission.Warnings, error) {
	var wrong field.ErrorList
	for i, plant := range greenhouse.Spec.Plants {
		if coldest, known := needs[plant]; known && greenhouse.Spec.MinCelsius < coldest {
			wrong = append(wrong, field.Invalid(field.NewPath("spec", "plants").Index(i), plant,
				fmt.Sprintf("needs %d degrees, and minCelsius is %d", coldest, greenhouse.Spec.MinCelsius)))
		}
	}
	if len(wrong) == 0 {
		return nil, nil
	}
	return nil, apierrors.NewInvalid(
		playv1.GroupVersion.WithKind("Greenhouse").GroupKind(), greenhouse.Name, wrong)
}

// SetupWebhookWithManager serves the Validator at the path that the marker names.
func SetupWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &playv1.Greenhouse{}).WithValidator(Validator{}).Complete()
}

//lab:end

// ValidateUpdate lets every change pass: the marker registers the Validator for create only.
func (Validator) ValidateUpdate(context.Context, *playv1.Greenhouse, *playv1.Greenhouse) (admission.Warnings, error) {
	return nil, nil
}

// ValidateDelete lets every deletion pass.
func (Validator) ValidateDelete(context.Context, *playv1.Greenhouse) (admission.Warnings, error) {
	return nil, nil
}
