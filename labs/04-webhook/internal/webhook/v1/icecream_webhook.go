// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	demov1 "lva.io/operators/labs/04-webhook/api/v1"
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

// TODO(lab): 1. Have the API server ask the validator: a marker +kubebuilder:webhook with path (controller-runtime
// serves the validator at /validate-demo-lva-io-v1-icecream), mutating=false, failurePolicy, sideEffects, groups,
// resources, verbs, versions, name (any, with two dots at least) and admissionReviewVersions=v1. Then
// `make manifests`.

// TODO(lab): 4. A marker like that of task 1, with mutating=true, a name of its own, and this path, at which
// controller-runtime serves the defaulter: /mutate-demo-lva-io-v1-icecream

// SetupIcecreamWebhookWithManager has the manager's webhook server answer for icecreams, each at its path.
func SetupIcecreamWebhookWithManager(mgr ctrl.Manager) error {
	// TODO(lab): 1. Let ctrl.NewWebhookManagedBy(mgr, &demov1.Icecream{}) serve the validator below, and with task 4
	// the defaulter.
	return nil
}

// IcecreamCustomDefaulter fills in fields that an order leaves open.
type IcecreamCustomDefaulter struct{}

// Default is called before the API server validates the object by its schema, so it can still fill in a missing
// flavour. It may be called again with its own result, since another webhook may have changed the order in between.
// Fields that are set keep their values, so the second call changes nothing.
func (*IcecreamCustomDefaulter) Default(ctx context.Context, icecream *demov1.Icecream) error {
	// TODO(lab): 4. No flavour: vanilla. No topping: wafer. Fields that are set keep their values. Change nothing in an
	// icecream that is being deleted, nor in one whose spec the update does not change (leavesSpec).
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
	// TODO(lab): 3. Accept every change that leaves the flavours as they are.

	return nil, nil // TODO(lab): 3. If the flavours change, validate the new ones as in a create.
}

// ValidateDelete exists for the interface only: the marker does not name the verb delete. An object whose deletion is
// denied stays for ever, so think twice before you add that verb.
func (*IcecreamCustomValidator) ValidateDelete(context.Context, *demov1.Icecream) (admission.Warnings, error) {
	return nil, nil
}

// validate names all wrong flavours, each with its path in the object and with the allowed values, so that a user has
// to correct the order only once. An order that is allowed but unusual gets a warning.
func validate(icecream *demov1.Icecream) (admission.Warnings, error) {
	// TODO(lab): 2. Collect a field.NotSupported for each flavour that is none of ours, and return all of them in one
	// apierrors.NewInvalid.

	// TODO(lab): 5. All flavours in one are allowed, but unwise: return a warning that says so.
	return nil, nil
}
