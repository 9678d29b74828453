// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	demov1 "lva.io/operators/solutions/05-cert-manager/api/v1"
)

// flavours is what the shop sells.
var flavours = []string{"vanilla", "chocolate", "strawberry"}

// Somebody who says no to the API server must be asked by it first. What it asks about stands in config/webhook, which
// `make manifests` writes from the markers below; each word of them is a promise:
//
//   - resources, verbs: only what has to be judged. icecreams is not icecreams/status, which the operator writes, and
//     without delete an icecream can always go, even when nobody is here to answer.
//   - failurePolicy=fail: as long as nobody answers, nothing is let in. With ignore, everything would be.
//   - sideEffects=None: being asked changes nothing, so we may be asked about a dry run too.
//   - timeoutSeconds: whoever orders an icecream waits for us, so we do not keep them long.

// +kubebuilder:webhook:path=/validate-demo-lva-io-v1-icecream,mutating=false,failurePolicy=fail,sideEffects=None,groups=demo.lva.io,resources=icecreams,verbs=create;update,versions=v1,name=validate.icecream.demo.lva.io,admissionReviewVersions=v1,matchPolicy=Equivalent,timeoutSeconds=5

// +kubebuilder:webhook:path=/mutate-demo-lva-io-v1-icecream,mutating=true,failurePolicy=fail,sideEffects=None,groups=demo.lva.io,resources=icecreams,verbs=create;update,versions=v1,name=default.icecream.demo.lva.io,admissionReviewVersions=v1,matchPolicy=Equivalent,timeoutSeconds=5

// SetupIcecreamWebhookWithManager has the manager's webhook server answer for icecreams, each at its path.
func SetupIcecreamWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &demov1.Icecream{}).
		WithDefaulter(&IcecreamCustomDefaulter{}).
		WithValidator(&IcecreamCustomValidator{}).
		Complete()
}

// IcecreamCustomDefaulter fills in what an order leaves open.
type IcecreamCustomDefaulter struct{}

// Default is called before the API server looks at its schema, so an order without any flavour can still be saved. It
// may be called again with what it has returned, since another webhook may have changed the order in between: what is
// there stays as it is, so the second call finds nothing to do.
func (*IcecreamCustomDefaulter) Default(ctx context.Context, icecream *demov1.Icecream) error {
	if !icecream.DeletionTimestamp.IsZero() {
		return nil // Nobody will eat it any more.
	}
	if same, err := leavesSpec(ctx, icecream); same || err != nil {
		return err
	}
	if len(icecream.Spec.Flavour) == 0 {
		icecream.Spec.Flavour = []string{"vanilla"}
	}
	if len(icecream.Spec.Topping) == 0 {
		icecream.Spec.Topping = []string{"wafer"}
	}
	return nil
}

// leavesSpec reports whether a request is an update of something else, such as a label or a finalizer. An icecream that was
// stored before this webhook existed may lack what Default fills in today. If Default filled it in now, a client that only
// adds a finalizer would change the order, and the operator would act on that.
func leavesSpec(ctx context.Context, icecream *demov1.Icecream) (bool, error) {
	req, _ := admission.RequestFromContext(ctx) // There is none in a test that calls Default itself: that is an order.
	if req.Operation != admissionv1.Update {
		return false, nil
	}
	var old demov1.Icecream
	if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
		return false, fmt.Errorf("read the icecream as it is stored: %w", err)
	}
	return equality.Semantic.DeepEqual(old.Spec, icecream.Spec), nil
}

// IcecreamCustomValidator refuses what the shop does not sell.
type IcecreamCustomValidator struct{}

// ValidateCreate judges an order.
func (*IcecreamCustomValidator) ValidateCreate(_ context.Context, icecream *demov1.Icecream) (admission.Warnings, error) {
	return validate(icecream)
}

// ValidateUpdate judges a change, and not the icecream: one that was stored before there was this rule, or while it was
// another, may be wrong through no fault of whoever changes its labels now. Were that refused, nobody could even take
// its finalizer off, and it would never go.
func (*IcecreamCustomValidator) ValidateUpdate(_ context.Context, old, icecream *demov1.Icecream) (admission.Warnings, error) {
	// The flavours are a set (listType=set in the schema): in another order they are the same.
	if sets.New(old.Spec.Flavour...).Equal(sets.New(icecream.Spec.Flavour...)) {
		return nil, nil
	}

	return validate(icecream)
}

// ValidateDelete is there for the interface only: the marker does not ask for it. What can't be deleted is there for
// ever, so think twice before you ask.
func (*IcecreamCustomValidator) ValidateDelete(context.Context, *demov1.Icecream) (admission.Warnings, error) {
	return nil, nil
}

// validate names all that is wrong, each with its place in the YAML and with what would be right: whoever reads it
// should have to come back only once. What is allowed, but hardly meant so, gets a warning.
func validate(icecream *demov1.Icecream) (admission.Warnings, error) {
	var problems field.ErrorList
	path := field.NewPath("spec", "flavour")
	for i, flavour := range icecream.Spec.Flavour {
		if !slices.Contains(flavours, flavour) {
			problems = append(problems, field.NotSupported(path.Index(i), flavour, flavours))
		}
	}
	if len(problems) > 0 {
		kind := demov1.GroupVersion.WithKind("Icecream").GroupKind()
		return nil, apierrors.NewInvalid(kind, icecream.Name, problems)
	}

	// The schema has seen to it that no flavour is there twice, so as many as there are is all of them.
	if len(icecream.Spec.Flavour) == len(flavours) {
		return admission.Warnings{fmt.Sprintf("%s in one: will you taste any of them?", strings.Join(flavours, ", "))}, nil
	}
	return nil, nil
}
