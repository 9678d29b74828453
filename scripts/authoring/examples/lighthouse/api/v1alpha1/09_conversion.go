// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/conversion"

	v1 "lva.io/operators/scripts/authoring/examples/lighthouse/api/v1"
)

//lab:begin conversion

// ConvertTo is called when a client sends v1alpha1 and the API server stores v1.
func (l *Lighthouse) ConvertTo(hub conversion.Hub) error {
	stored, ok := hub.(*v1.Lighthouse)
	if !ok {
		return fmt.Errorf("a lighthouse is not converted to %T", hub)
	}
	l.ObjectMeta.DeepCopyInto(&stored.ObjectMeta)
	stored.Spec.FlashSeconds = l.Spec.Period // A pointer: nil stays nil, and 0 stays 0.
	stored.Status.Lit = l.Status.Lit
	return nil
}

// ConvertFrom is called when a client asks for v1alpha1 and the API server has v1.
func (l *Lighthouse) ConvertFrom(hub conversion.Hub) error {
	stored, ok := hub.(*v1.Lighthouse)
	if !ok {
		return fmt.Errorf("a lighthouse is not converted from %T", hub)
	}
	stored.ObjectMeta.DeepCopyInto(&l.ObjectMeta)
	l.Spec.Period = stored.Spec.FlashSeconds
	l.Status.Lit = stored.Status.Lit
	return nil
}

//lab:end
