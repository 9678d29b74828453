// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	appsv1beta1 "lva.io/operators/solutions/09-webapp/api/v1beta1"
)

// savedAnnotation is an annotation of v1alpha1 that holds what only v1beta1 has a field for. Without it, a client of
// v1alpha1 that reads, changes and writes a WebApp would delete those fields. Only the conversion writes it.
const savedAnnotation = "apps.lva.io/v1beta1-fields"

// maxDescription is the MaxLength of the field in v1beta1. The API server validates the writes of a v1alpha1 client by
// the schema of v1alpha1, so only the conversion can enforce it for the annotation.
const maxDescription = 1000

// saved is the content of the annotation, as JSON. A field that a later version adds gets a line here.
type saved struct {
	Description string `json:"description,omitempty"`
	// Annotation is an annotation of the same name that a user wrote in v1beta1 and that looks like one of the
	// conversion. It is only data, there and here.
	Annotation *string `json:"annotation,omitempty"`
}

// ConvertTo writes this WebApp as one of v1beta1, in which it is stored.
func (app *WebApp) ConvertTo(hub conversion.Hub) error {
	dst, ok := hub.(*appsv1beta1.WebApp)
	if !ok {
		return fmt.Errorf("convert a WebApp to %T, which is no WebApp of v1beta1", hub)
	}
	dst.ObjectMeta = *app.ObjectMeta.DeepCopy()
	dst.Spec = appsv1beta1.WebAppSpec{Image: app.Spec.Image, Port: app.Spec.NodePortNumber, Replicas: app.Spec.Replicas}
	dst.Status = appsv1beta1.WebAppStatus(app.Status)

	if was, ok := restore(app.Annotations[savedAnnotation]); ok {
		dst.Spec.Description = was.Description
		// v1beta1 has a field for it, and two copies of a value will differ one day.
		setAnnotation(&dst.ObjectMeta, was.Annotation)
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

	keep := saved{Description: src.Spec.Description}
	if users, ok := src.Annotations[savedAnnotation]; ok {
		keep.Annotation = &users
	}
	text, err := keep.text()
	if err != nil {
		return err
	}
	setAnnotation(&app.ObjectMeta, text)
	return nil
}

// text is the annotation of v1alpha1; nil: it needs none.
func (s saved) text() (*string, error) {
	if s.Description == "" {
		if s.Annotation == nil {
			return nil, nil
		}
		// A user's annotation stays as it is, unless the way back would take it for one of the conversion.
		if _, ours := restore(*s.Annotation); !ours {
			return s.Annotation, nil
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("save what v1alpha1 has no field for: %w", err)
	}
	return new(string(text)), nil
}

// restore reads the annotation of v1alpha1. It reports false for everything that ConvertFrom does not write: that is a
// user's, and stays an annotation. It must not be an error, since an object that cannot be converted makes each list
// fail.
func restore(annotation string) (was saved, ok bool) {
	if json.Unmarshal([]byte(annotation), &was) != nil || utf8.RuneCountInString(was.Description) > maxDescription {
		return saved{}, false
	}
	text, err := was.text()
	return was, err == nil && text != nil && *text == annotation
}

// setAnnotation sets the annotation, or removes it if there is no value.
func setAnnotation(object *metav1.ObjectMeta, value *string) {
	delete(object.Annotations, savedAnnotation)
	if value != nil {
		metav1.SetMetaDataAnnotation(object, savedAnnotation, *value)
	}
	if len(object.Annotations) == 0 {
		object.Annotations = nil
	}
}
