// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// shape turns an answer into the form that the client wants.
func (r *request) shape(object runtime.Object) (any, error) {
	switch r.form {
	case "Table":
		return r.table(object)
	case "PartialObjectMetadata":
		if meta.IsListType(object) {
			return nil, notAcceptable("a list is no single object: ask for PartialObjectMetadataList")
		}
		return partial(object), nil
	case "PartialObjectMetadataList":
		return partialList(object)
	default:
		return object, nil
	}
}

// table turns an object or a list into what kubectl prints: the server knows which columns matter, and kubectl need
// not.
func (r *request) table(object runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{
		TypeMeta:          metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"},
		ColumnDefinitions: r.resource.Columns,
		Rows:              []metav1.TableRow{},
	}
	objects := []runtime.Object{object}
	if list, err := meta.ListAccessor(object); err == nil {
		table.ListMeta = metav1.ListMeta{
			ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(),
			RemainingItemCount: list.GetRemainingItemCount(),
		}
		if objects, err = meta.ExtractList(object); err != nil {
			return nil, err
		}
	} else {
		table.ResourceVersion = accessor(object).GetResourceVersion()
	}
	include := metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))
	for _, object := range objects {
		row := metav1.TableRow{Cells: r.resource.Cells(object)}
		var inside any
		switch include {
		case metav1.IncludeNone:
		case metav1.IncludeObject:
			inside = object
		case metav1.IncludeMetadata, "":
			inside = partial(object)
		default:
			return nil, apierrors.NewBadRequest(fmt.Sprintf("unrecognized includeObject value: %q", include))
		}
		if inside != nil {
			raw, err := json.Marshal(inside)
			if err != nil {
				return nil, err
			}
			row.Object = runtime.RawExtension{Raw: raw}
		}
		table.Rows = append(table.Rows, row)
	}
	return table, nil
}

// partial is the metadata of an object alone.
func partial(object runtime.Object) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
		ObjectMeta: *meta.AsPartialObjectMetadata(accessor(object)).ObjectMeta.DeepCopy(),
	}
}

func partialList(object runtime.Object) (*metav1.PartialObjectMetadataList, error) {
	partials := &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
		Items:    []metav1.PartialObjectMetadata{},
	}
	list, err := meta.ListAccessor(object)
	if err != nil {
		return nil, notAcceptable("one object is no list: ask for PartialObjectMetadata")
	}
	partials.ListMeta = metav1.ListMeta{
		ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(),
		RemainingItemCount: list.GetRemainingItemCount(),
	}
	objects, err := meta.ExtractList(object)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		partials.Items = append(partials.Items, *partial(object))
	}
	return partials, nil
}
