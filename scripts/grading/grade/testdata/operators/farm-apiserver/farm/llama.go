// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package farm has the llamas: their type, their rules and their storage.
package farm

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Group is the API group.
const Group = "farm.example.com"

// Version is the only version of the group.
var Version = schema.GroupVersion{Group: Group, Version: "v1alpha"}

// Llama is a llama of the farm.
type Llama struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec LlamaSpec `json:"spec"`
}

// LlamaSpec describes a llama.
type LlamaSpec struct {
	Weight *float64 `json:"weight"` // kilograms
	Height *float64 `json:"height"` // metres
}

// LlamaList is a list of llamas.
type LlamaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Llama `json:"items"`
}

func copied(n *float64) *float64 {
	if n == nil {
		return nil
	}
	return new(*n)
}

func (l *Llama) deepCopy() *Llama {
	c := &Llama{TypeMeta: l.TypeMeta, Spec: LlamaSpec{Weight: copied(l.Spec.Weight), Height: copied(l.Spec.Height)}}
	l.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return c
}

// DeepCopyObject implements runtime.Object.
func (l *Llama) DeepCopyObject() runtime.Object { return l.deepCopy() }

// DeepCopyObject implements runtime.Object.
func (l *LlamaList) DeepCopyObject() runtime.Object {
	c := &LlamaList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].deepCopy())
	}
	return c
}

// Install makes the types known. There is one version, so the internal one is the same.
func Install(scheme *runtime.Scheme) {
	internal := schema.GroupVersion{Group: Group, Version: runtime.APIVersionInternal}
	for _, version := range []schema.GroupVersion{internal, Version} {
		scheme.AddKnownTypes(version, &Llama{}, &LlamaList{})
	}
	metav1.AddToGroupVersion(scheme, Version)
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned,
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	if err := scheme.SetVersionPriority(Version); err != nil {
		panic(err)
	}
}

// Definitions are the schemas of the types.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	const path = "com.example.farm.v1alpha."
	object := func(
		about string, required []string, properties map[string]spec.Schema, needs ...string,
	) common.OpenAPIDefinition {
		return common.OpenAPIDefinition{Dependencies: needs, Schema: spec.Schema{SchemaProps: spec.SchemaProps{
			Type: []string{"object"}, Description: about, Required: required, Properties: properties,
		}}}
	}
	number := func(about string) spec.Schema { return *spec.Float64Property().WithDescription(about) }
	reference := func(to, about string) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(to), Description: about, Default: map[string]any{}}}
	}
	text := func(about string) spec.Schema { return *spec.StringProperty().WithDescription(about) }
	meta, listMeta := metav1.ObjectMeta{}.OpenAPIModelName(), metav1.ListMeta{}.OpenAPIModelName()
	return map[string]common.OpenAPIDefinition{
		path + "LlamaSpec": object("LlamaSpec is what a llama is like.", []string{"weight", "height"}, map[string]spec.Schema{
			"weight": number("Its weight in kilograms."), "height": number("Its height in metres."),
		}),
		path + "Llama": object("Llama is a llama of the farm.", []string{"spec"}, map[string]spec.Schema{
			"apiVersion": text("Group and version."), "kind": text("The kind."),
			"metadata": reference(meta, "Standard metadata."), "spec": reference(path+"LlamaSpec", "What it is like."),
		}, meta, path+"LlamaSpec"),
		path + "LlamaList": object("LlamaList is a list of llamas.", []string{"items"}, map[string]spec.Schema{
			"apiVersion": text("Group and version."), "kind": text("The kind."),
			"metadata": reference(listMeta, "Standard metadata."),
			"items": *spec.ArrayProperty(&spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(path + "Llama")}}).
				WithDescription("The llamas."),
		}, listMeta, path+"Llama"),
	}
}

// strategy has the rules.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (strategy) NamespaceScoped() bool                                            { return true }
func (strategy) PrepareForCreate(context.Context, runtime.Object)                 {}
func (strategy) PrepareForUpdate(_ context.Context, _, _ runtime.Object)          {}
func (strategy) AllowCreateOnUpdate() bool                                        { return false }
func (strategy) AllowUnconditionalUpdate() bool                                   { return false }
func (strategy) Canonicalize(runtime.Object)                                      {}
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string        { return nil }
func (strategy) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string { return nil }

func (strategy) Validate(_ context.Context, o runtime.Object) field.ErrorList {
	var wrong field.ErrorList
	llama := o.(*Llama).Spec
	for _, message := range validation.NameIsDNSSubdomain(o.(*Llama).Name, false) { // the library requires less
		wrong = append(wrong, field.Invalid(field.NewPath("metadata", "name"), o.(*Llama).Name, message))
	}
	for name, number := range map[string]*float64{"weight": llama.Weight, "height": llama.Height} {
		at := field.NewPath("spec", name)
		if number == nil {
			wrong = append(wrong, field.Required(at, ""))
		} else if *number < 0 {
			wrong = append(wrong, field.Invalid(at, *number, "must not be negative"))
		}
	}
	return wrong
}

func (s strategy) ValidateUpdate(ctx context.Context, o, _ runtime.Object) field.ErrorList {
	return s.Validate(ctx, o)
}

func attributes(o runtime.Object) (labels.Set, fields.Set, error) {
	llama, ok := o.(*Llama)
	if !ok {
		return nil, nil, fmt.Errorf("%T is no llama", o)
	}
	return llama.Labels, generic.ObjectMetaFieldsSet(&llama.ObjectMeta, true), nil
}

// llamaStorage adds the names by which kubectl knows llamas.
type llamaStorage struct{ *registry.Store }

func (llamaStorage) ShortNames() []string { return []string{"ll"} }

// NewStorage returns the storage of llamas.
func NewStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (rest.StandardStorage, error) {
	rules := strategy{scheme, names.SimpleNameGenerator}
	store := &registry.Store{
		NewFunc:     func() runtime.Object { return &Llama{} },
		NewListFunc: func() runtime.Object { return &LlamaList{} },
		PredicateFunc: func(l labels.Selector, f fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: l, Field: f, GetAttrs: attributes}
		},
		DefaultQualifiedResource:  schema.GroupResource{Group: Group, Resource: "llamas"},
		SingularQualifiedResource: schema.GroupResource{Group: Group, Resource: "llama"},
		CreateStrategy:            rules, UpdateStrategy: rules, DeleteStrategy: rules, TableConvertor: columns{},
	}
	return llamaStorage{store},
		store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options, AttrFunc: attributes})
}

// Begin puts two llamas into an empty farm.
func Begin(ctx context.Context, llamas rest.StandardStorage) error {
	found, err := llamas.List(ctx, nil)
	if err != nil || len(found.(*LlamaList).Items) > 0 {
		return err
	}
	for _, l := range []struct {
		namespace, name string
		weight, height  float64
	}{{"default", "carla", 130.5, 1.1}, {"farm", "pedro", 0.1, 0.3}} {
		llama := &Llama{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name},
			Spec:       LlamaSpec{Weight: &l.weight, Height: &l.height},
		}
		if _, err := llamas.Create(
			request.WithNamespace(ctx, l.namespace), llama, nil, &metav1.CreateOptions{},
		); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s: %w", l.name, err)
		}
	}
	return nil
}

// OpenAPIModelName is the name of the schema.
func (Llama) OpenAPIModelName() string { return "com.example.farm.v1alpha.Llama" }

// OpenAPIModelName is the name of the schema.
func (LlamaSpec) OpenAPIModelName() string { return "com.example.farm.v1alpha.LlamaSpec" }

// OpenAPIModelName is the name of the schema.
func (LlamaList) OpenAPIModelName() string { return "com.example.farm.v1alpha.LlamaList" }
