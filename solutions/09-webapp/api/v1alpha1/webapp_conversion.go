// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	"fmt"
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/conversion"

	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

// descriptionAnnotation holds what only v1beta1 has a field for. Without it, a client of v1alpha1 that reads, changes and writes a WebApp
// would delete its description.
const descriptionAnnotation = "apps.lva.io/description"

// ConvertTo writes this WebApp as one of v1beta1, in which it is stored.
func (app *WebApp) ConvertTo(hub conversion.Hub) error {
	dst, ok := hub.(*appsv1beta1.WebApp)
	if !ok {
		return fmt.Errorf("convert a WebApp to %T, which is no WebApp of v1beta1", hub)
	}
	dst.ObjectMeta = *app.ObjectMeta.DeepCopy()
	dst.Spec = appsv1beta1.WebAppSpec{Image: app.Spec.Image, Port: app.Spec.NodePortNumber, Replicas: app.Spec.Replicas}
	dst.Status = appsv1beta1.WebAppStatus(app.Status)

	if description := app.Annotations[descriptionAnnotation]; description != "" {
		dst.Spec.Description = description
		// In v1beta1 there is a field for it, and what stands in two places will differ one day.
		delete(dst.Annotations, descriptionAnnotation)
		if len(dst.Annotations) == 0 {
			dst.Annotations = nil
		}
	}
	return nil
}

// ConvertFrom makes this WebApp of one of v1beta1.
func (app *WebApp) ConvertFrom(hub conversion.Hub) error {
	src, ok := hub.(*appsv1beta1.WebApp)
	if !ok {
		return fmt.Errorf("convert %T to a WebApp of v1alpha1, and it is no WebApp of v1beta1", hub)
	}
	app.ObjectMeta = *src.ObjectMeta.DeepCopy()
	app.Spec = WebAppSpec{Image: src.Spec.Image, NodePortNumber: src.Spec.Port, Replicas: src.Spec.Replicas}
	app.Status = WebAppStatus(src.Status)

	if src.Spec.Description != "" {
		app.Annotations = maps.Clone(src.Annotations)
		if app.Annotations == nil {
			app.Annotations = map[string]string{}
		}
		app.Annotations[descriptionAnnotation] = src.Spec.Description
	}
	return nil
}
