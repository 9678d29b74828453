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

	demov1 "lva.io/operators/labs/05-cert-manager/api/v1"
)

// flavours are the flavours that the shop sells.
var flavours = []string{"vanilla", "chocolate", "strawberry"}

// A webhook can deny a request only if the API server calls it. config/webhook says for which requests it does.
// `make manifests` writes that file from the markers below. Each of their words is a promise:
//
//   - resources, verbs: only requests that must be validated. icecreams does not include icecreams/status, which the
//     operator writes. Without delete, an icecream can be deleted even when the webhook is down.
//   - failurePolicy=fail: while the webhook is down, the API server refuses these requests. With ignore, it would
//     accept all of them.
//   - sideEffects=None: a call changes nothing, so the API server may call the webhook for a dry run, too.
//   - timeoutSeconds: each client waits for the webhook's answer, so the time limit is short.

// +kubebuilder:webhook:path=/validate-demo-lva-io-v1-icecream,mutating=false,failurePolicy=fail,sideEffects=None,groups=demo.lva.io,resources=icecreams,verbs=create;update,versions=v1,name=validate.icecream.demo.lva.io,admissionReviewVersions=v1,matchPolicy=Equivalent,timeoutSeconds=5

// +kubebuilder:webhook:path=/mutate-demo-lva-io-v1-icecream,mutating=true,failurePolicy=fail,sideEffects=None,groups=demo.lva.io,resources=icecreams,verbs=create;update,versions=v1,name=default.icecream.demo.lva.io,admissionReviewVersions=v1,matchPolicy=Equivalent,timeoutSeconds=5

// SetupIcecreamWebhookWithManager has the manager's webhook server answer for icecreams, each at its path.
func SetupIcecreamWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &demov1.Icecream{}).
		WithDefaulter(&IcecreamCustomDefaulter{}).
		WithValidator(&IcecreamCustomValidator{}).
		Complete()
}

// IcecreamCustomDefaulter fills in fields that an order leaves open.
type IcecreamCustomDefaulter struct{}

// Default is called before the API server validates the object by its schema, so it can still fill in a missing
// flavour. It may be called again with its own result, since another webhook may have changed the order in between.
// Fields that are set keep their values, so the second call changes nothing.
func (*IcecreamCustomDefaulter) Default(ctx context.Context, icecream *demov1.Icecream) error {
	if !icecream.DeletionTimestamp.IsZero() {
		return nil // It is being deleted, so defaults are of no use.
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

// leavesSpec reports whether a request is an update of something else, such as a label or a finalizer. An icecream that
// was stored before this webhook existed may lack what Default fills in today. If Default filled it in now, a client
// that only adds a finalizer would change the order, and the operator would act on that.
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

// IcecreamCustomValidator denies flavours that the shop does not sell.
type IcecreamCustomValidator struct{}

// ValidateCreate validates an order.
func (*IcecreamCustomValidator) ValidateCreate(
	_ context.Context, icecream *demov1.Icecream,
) (admission.Warnings, error) {
	return validate(icecream)
}

// ValidateUpdate validates a change, and not the whole icecream. An icecream that was stored before this rule existed
// may have flavours that are wrong now, and a change of its labels is not to blame. If such updates were denied, no
// client could remove its finalizer, and it could never be deleted.
func (*IcecreamCustomValidator) ValidateUpdate(
	_ context.Context, old, icecream *demov1.Icecream,
) (admission.Warnings, error) {
	// The flavours are a set (listType=set in the schema): in another order they are the same.
	if sets.New(old.Spec.Flavour...).Equal(sets.New(icecream.Spec.Flavour...)) {
		return nil, nil
	}

	return validate(icecream)
}

// ValidateDelete exists for the interface only: the marker does not name the verb delete. An object whose deletion is
// denied stays for ever, so think twice before you add that verb.
func (*IcecreamCustomValidator) ValidateDelete(context.Context, *demov1.Icecream) (admission.Warnings, error) {
	return nil, nil
}

// validate names all wrong flavours, each with its path in the object and with the allowed values, so that a user has
// to correct the order only once. An order that is allowed but unusual gets a warning.
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

	// The schema ensures that no flavour occurs twice, so an icecream with as many flavours as the menu has all of them.
	if len(icecream.Spec.Flavour) == len(flavours) {
		return admission.Warnings{fmt.Sprintf("%s in one: will you taste any of them?", strings.Join(flavours, ", "))}, nil
	}
	return nil, nil
}
