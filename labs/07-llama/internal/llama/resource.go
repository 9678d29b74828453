// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"lva.io/operators/labs/07-llama/api/v1alpha"
	"lva.io/operators/labs/07-llama/internal/serve"
	"lva.io/operators/labs/07-llama/internal/store"
)

var (
	groupKind     = v1alpha.GroupVersion.WithKind("Llama").GroupKind()
	groupResource = schema.GroupResource{Group: v1alpha.GroupVersion.Group, Resource: "llamas"}
)

// Namespaces knows which namespaces take new objects.
type Namespaces interface {
	// AllowCreate returns a NotFound error if there is no such namespace, and a Forbidden error if it is being deleted.
	AllowCreate(ctx context.Context, resource schema.GroupResource, namespace, name string) error
}

// Llamas serves the llamas of a store.
type Llamas struct {
	store      *store.Store
	namespaces Namespaces
}

// New returns the llamas of this store. An empty one that has never had any gets the herd with which the farm begins.
func New(s *store.Store, namespaces Namespaces) (*Llamas, error) {
	l := &Llamas{store: s, namespaces: namespaces}
	herd := herd()
	// The herd is the first that is written, before any request is served. So the version says how much of it was
	// written by an earlier start, also if that was killed between two llamas. A farm whose llamas were all deleted
	// is no new one.
	for _, llama := range herd[min(s.Version(), uint64(len(herd))):] {
		prepareNew(llama)
		if _, err := s.Create(llama); err != nil {
			return nil, fmt.Errorf("let %s into the new farm: %w", llama.Name, err)
		}
	}
	return l, nil
}

func herd() []*v1alpha.Llama {
	return []*v1alpha.Llama{
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carla"},
			Spec:       v1alpha.LlamaSpec{Weight: 130.5, Height: 1.1},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "farm", Name: "pedro"},
			Spec:       v1alpha.LlamaSpec{Weight: 0.1, Height: 0.3},
		},
	}
}

// Resource is how the server presents llamas.
func (l *Llamas) Resource() serve.Resource {
	return serve.Resource{
		Kind: "Llama", ListKind: "LlamaList", Plural: "llamas", Singular: "llama", ShortNames: []string{"ll"},
		Object: &v1alpha.Llama{}, List: &v1alpha.LlamaList{},
		Columns: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the llama, unique in its namespace."},
			{Name: "Weight", Type: "number", Format: "double", Description: "Weight in kilograms."},
			{Name: "Height", Type: "number", Format: "double", Description: "Height in metres."},
			{Name: "Age", Type: "string", Description: "Time since the llama was created."},
		},
		Cells: func(object runtime.Object) []any {
			llama, ok := object.(*v1alpha.Llama)
			if !ok {
				return nil
			}
			// TODO(lab): a6. A value for each column.
			return make([]any, 0, len(llama.Name))
		},
		Reader: l,
		// TODO(lab): b1. Then discovery lists the verbs that write, too.
	}
}

func age(created metav1.Time) string {
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(created.Time))
}
