// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"lva.io/operators/labs/07-llama/api/v1alpha"
	"lva.io/operators/labs/07-llama/internal/store"
)

var (
	errUnchanged = errors.New("unchanged")                // ends a change that would change nothing
	errDryRun    = errors.New("dry run")                  // ends a change that was only a trial
	errOvertaken = errors.New("another write was faster") // ends a change that began with an older state
)

// Create stores a new llama.
func (l *Llamas) Create(ctx context.Context, object runtime.Object, dryRun bool) (runtime.Object, error) {
	llama, ok := object.(*v1alpha.Llama)
	if !ok {
		return nil, fmt.Errorf("a %T is no llama", object)
	}
	if llama.ResourceVersion != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	prepareNew(llama)
	if err := validate(llama); err != nil {
		return nil, err
	}
	// TODO(lab): b10. Is there such a namespace, and is it not being deleted? l.namespaces knows.
	if dryRun {
		if _, err := l.store.Get(types.NamespacedName{Namespace: llama.Namespace, Name: llama.Name}); err == nil {
			return nil, explain(store.ErrExists, llama.Name)
		}
		return present(llama), nil
	}
	created, err := l.store.Create(llama)
	if err != nil {
		return nil, explain(err, llama.Name)
	}
	return present(created), nil
}

// prepareNew sets what the server decides, whatever the client has sent.
func prepareNew(llama *v1alpha.Llama) {
	if llama.Name == "" && llama.GenerateName != "" {
		llama.Name = llama.GenerateName + utilrand.String(5)
	}
	llama.UID = uuid.NewUUID()
	llama.CreationTimestamp = metav1.Now().Rfc3339Copy()
	llama.DeletionTimestamp, llama.DeletionGracePeriodSeconds = nil, nil
	llama.Generation = 1
	llama.ManagedFields = nil // these are for server-side apply, which this server does not have
}

// validate says all that is wrong with a llama at once.
func validate(llama *v1alpha.Llama) error {
	wrong := validation.ValidateObjectMeta(&llama.ObjectMeta, true, validation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	if llama.Spec.Weight < 0 {
		wrong = append(wrong, field.Invalid(field.NewPath("spec", "weight"), llama.Spec.Weight, "must not be negative"))
	}
	if llama.Spec.Height < 0 {
		wrong = append(wrong, field.Invalid(field.NewPath("spec", "height"), llama.Spec.Height, "must not be negative"))
	}
	if len(wrong) > 0 {
		return apierrors.NewInvalid(groupKind, llama.Name, wrong)
	}
	return nil
}

// Update stores what change makes of the current llama. A change may take long: a JSON patch has many operations. So
// the store is not locked while it is computed. If another write was faster, it is computed again, from the state
// which that write has left.
func (l *Llamas) Update(
	ctx context.Context, namespace, name string,
	change func(current runtime.Object) (runtime.Object, error), dryRun bool,
) (runtime.Object, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	for {
		current, err := l.store.Get(key)
		if err != nil {
			return nil, explain(err, name)
		}
		updated, err := changed(current, change)
		switch {
		case err != nil:
			return nil, err
		case apiequality.Semantic.DeepEqual(updated.ObjectMeta, current.ObjectMeta) && updated.Spec == current.Spec:
			return present(updated), nil // nothing is written, and no watch is woken
		case dryRun:
			return present(updated), nil
		}
		stored, err := l.store.Update(key, func(now *v1alpha.Llama) (*v1alpha.Llama, error) {
			if now.ResourceVersion != current.ResourceVersion {
				return nil, errOvertaken
			}
			return updated, nil
		})
		switch {
		case err == nil:
			return present(stored), nil
		case !errors.Is(err, errOvertaken):
			return nil, explain(err, name)
		case ctx.Err() != nil:
			return nil, apierrors.NewTimeoutError("other writes were faster each time", 1)
		}
	}
}

// changed returns what change makes of the current llama, with the metadata that the server decides, if it is valid.
func changed(
	current *v1alpha.Llama, change func(current runtime.Object) (runtime.Object, error),
) (*v1alpha.Llama, error) {
	object, err := change(present(current))
	if err != nil {
		return nil, err
	}
	updated, ok := object.(*v1alpha.Llama)
	if !ok {
		return nil, fmt.Errorf("a %T is no llama", object)
	}
	if err := prepareUpdate(updated, current); err != nil {
		return nil, err
	}
	return updated, validate(updated)
}

// prepareUpdate keeps the fields that no client may change, and refuses an update of a llama that no longer exists.
func prepareUpdate(updated, current *v1alpha.Llama) error {
	// TODO(lab): b2. A client that has read an older version must not overwrite later changes: apierrors.NewConflict.
	if updated.UID != "" && updated.UID != current.UID {
		return apierrors.NewConflict(groupResource, current.Name,
			fmt.Errorf("the UID in the request is %s, and that of the object is %s: it is another one",
				updated.UID, current.UID))
	}
	if current.DeletionTimestamp != nil {
		for _, finalizer := range updated.Finalizers {
			if !slices.Contains(current.Finalizers, finalizer) {
				return apierrors.NewInvalid(groupKind, current.Name, field.ErrorList{field.Forbidden(
					field.NewPath("metadata", "finalizers"), "no new finalizers can be added if the object is being deleted")})
			}
		}
	}
	updated.UID = current.UID
	updated.ResourceVersion = current.ResourceVersion
	updated.CreationTimestamp = current.CreationTimestamp
	updated.DeletionTimestamp = current.DeletionTimestamp
	updated.DeletionGracePeriodSeconds = current.DeletionGracePeriodSeconds
	updated.GenerateName = current.GenerateName
	updated.ManagedFields = nil
	updated.TypeMeta = current.TypeMeta
	updated.Generation = current.Generation
	if updated.Spec != current.Spec {
		updated.Generation++
	}
	return nil
}

// Delete removes a llama, or, if it has a finalizer, marks it as deleted.
func (l *Llamas) Delete(
	_ context.Context, namespace, name string, options metav1.DeleteOptions, dryRun bool,
) (runtime.Object, bool, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	var result *v1alpha.Llama
	stored, err := l.store.Update(key, func(current *v1alpha.Llama) (*v1alpha.Llama, error) {
		if err := checkPreconditions(current, options.Preconditions); err != nil {
			return nil, err
		}
		result = current.DeepCopy()
		marked := result.DeletionTimestamp != nil
		if !marked {
			result.DeletionTimestamp = new(metav1.Now().Rfc3339Copy())
			result.DeletionGracePeriodSeconds = new(int64(0))
			result.Generation++
			result.Finalizers = addPropagation(result.Finalizers, options.PropagationPolicy)
		}
		switch {
		case dryRun:
			return nil, errDryRun
		case marked:
			return nil, errUnchanged
		}
		return result, nil
	})
	if errors.Is(err, errUnchanged) || errors.Is(err, errDryRun) {
		return present(result), len(result.Finalizers) == 0, nil
	}
	if err != nil {
		return nil, false, explain(err, name)
	}
	return present(stored), len(stored.Finalizers) == 0, nil
}

// addPropagation asks the garbage collector, by a finalizer, to handle the objects that the llama owns before the llama
// is deleted.
func addPropagation(finalizers []string, policy *metav1.DeletionPropagation) []string {
	if policy == nil {
		return finalizers
	}
	wanted := map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
		metav1.DeletePropagationOrphan:     metav1.FinalizerOrphanDependents,
	}[*policy]
	if wanted == "" || slices.Contains(finalizers, wanted) {
		return finalizers
	}
	return append(finalizers, wanted)
}

// checkPreconditions refuses to delete another llama than the client means: one of the same name, or a newer state.
func checkPreconditions(current *v1alpha.Llama, wanted *metav1.Preconditions) error {
	// TODO(lab): b3. The uid and the resourceVersion that the client wants, if it wants any.
	return nil
}
