// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func explain() types.Feature {
	return features.New("OpenAPI").
		Assess("v3", check.Assess(step(func(v visit) {
			const path = "/openapi/v3/apis/" + groupVersion
			a := v.reaches(path, "OpenAPI v3 ("+path+") describes Llama: spec.weight and spec.height are numbers",
				func(a answer) (string, bool) {
					if a.code != http.StatusOK {
						return "the answer is " + a.summary(), false
					}
					schemas, _, _ := unstructured.NestedMap(a.object(), "components", "schemas")
					return describes(schemas, "#/components/schemas/")
				})
			v.wellFormed(a)
			schemas, _, _ := unstructured.NestedMap(a.object(), "components", "schemas")
			v.fieldTypes(a, schemas, "#/components/schemas/")
			if output, ok, err := v.kubectl("", "explain", "llamas.spec.weight"); ok &&
				(err != nil || !strings.Contains(output, "number")) {
				v.Fail(v.t, "kubectl explain llamas.spec.weight says that it is a number", "it prints: "+strings.TrimSpace(output))
			}
		}))).
		Assess("v2", check.Assess(step(func(v visit) {
			p, ok := v.proxy()
			if !ok {
				return // the API server fetches it once a minute
			}
			a := v.want(p.send(v.ctx, http.MethodGet, "/openapi/v2", nil, admin...),
				"the server answers /openapi/v2", http.StatusOK)
			definitions, _, _ := unstructured.NestedMap(a.object(), "definitions")
			if observed, ok := describes(definitions, "#/definitions/"); !ok {
				v.fail(a, "OpenAPI v2 (/openapi/v2) describes Llama: spec.weight and spec.height are numbers", observed)
			}
			v.fieldTypes(a, definitions, "#/definitions/")
			v.wellFormed(a)
		}))).Feature()
}

// wellFormed fails the check unless an OpenAPI document is consistent: programs that generate clients from it read all
// of it.
func (v visit) wellFormed(a answer) {
	v.t.Helper()
	document := a.object()
	paths, _, _ := unstructured.NestedMap(document, "paths")
	for path, item := range paths {
		item, _ := item.(map[string]any)
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if operation, ok := item[method].(map[string]any); ok && operation["responses"] == nil {
				v.fail(a, "each operation of the OpenAPI document has responses, without which it is none",
					fmt.Sprintf("%s of %s has none", method, path))
			}
		}
	}
	for _, reference := range references(document) {
		fields := strings.Split(strings.TrimPrefix(reference, "#/"), "/")
		if _, found, _ := unstructured.NestedMap(document, fields...); !found {
			v.fail(a, "each reference in the OpenAPI document leads to a schema", reference+" leads nowhere")
		}
	}
}

// references returns all references in a part of an OpenAPI document.
func references(part any) (all []string) {
	switch part := part.(type) {
	case map[string]any:
		if reference, ok := part["$ref"].(string); ok {
			all = append(all, reference)
		}
		for _, inside := range part {
			all = append(all, references(inside)...)
		}
	case []any:
		for _, inside := range part {
			all = append(all, references(inside)...)
		}
	}
	return all
}

// describes reports whether schemas describe a Llama. References begin with a prefix.
func describes(schemas map[string]any, prefix string) (observed string, ok bool) {
	described := schemaOf(schemas, "Llama")
	if described == nil {
		return fmt.Sprintf("none of %d schemas has the x-kubernetes-group-version-kind of Llama", len(schemas)), false
	}
	spec := resolve(schemas, prefix, described, "spec")
	for _, field := range []string{"weight", "height"} {
		if kind := textOf(resolve(schemas, prefix, spec, field), "type"); kind != "number" {
			return fmt.Sprintf("Llama is described, and the type of spec.%s is %q", field, kind), false
		}
	}
	return "", true
}

// schemaOf returns the schema of a kind, or nil.
func schemaOf(schemas map[string]any, kind string) map[string]any {
	for _, described := range schemas {
		described, _ := described.(map[string]any)
		kinds, _, _ := unstructured.NestedSlice(described, "x-kubernetes-group-version-kind")
		if slices.ContainsFunc(kinds, func(one any) bool {
			k, ok := one.(map[string]any)
			return ok && textOf(k, "group") == group && textOf(k, "version") == "v1alpha" && textOf(k, "kind") == kind
		}) {
			return described
		}
	}
	return nil
}

// metadataTypes are the types of metadata fields, for documents that describe them.
var metadataTypes = map[string]string{
	"name": "string", "labels{}": "string", "annotations{}": "string", "finalizers": "array", "finalizers[]": "string",
	"ownerReferences": "array", "ownerReferences[].uid": "string", "generation": "integer", "creationTimestamp": "string",
}

// fieldTypes fails the check unless the fields of the kinds have their types. It checks the described fields of each
// kind's metadata, and the containers of FarmPods, if there are any.
func (v visit) fieldTypes(a answer, schemas map[string]any, prefix string) {
	v.t.Helper()
	kinds := []string{"Llama"}
	if slices.ContainsFunc(resourcesIn(v.send(v.ctx, http.MethodGet, root, nil)), func(r map[string]any) bool {
		return textOf(r, "kind") == "FarmPod"
	}) {
		kinds = append(kinds, "FarmPod")
	}
	for _, kind := range kinds {
		described := schemaOf(schemas, kind)
		if described == nil {
			v.fail(a, a.path+" describes each kind of discovery",
				fmt.Sprintf("none of %d schemas has the x-kubernetes-group-version-kind of %s", len(schemas), kind))
		}
		metadata := resolve(schemas, prefix, described, "metadata")
		for field, want := range metadataTypes {
			if kind := typeAt(schemas, prefix, metadata, field); kind != want && kind != "" {
				v.fail(a, fmt.Sprintf("in %s the type of metadata.%s is %s", a.path, field, want), fmt.Sprintf("it is %q", kind))
			}
		}
	}
	if len(kinds) < 2 {
		return
	}
	spec := resolve(schemas, prefix, schemaOf(schemas, "FarmPod"), "spec")
	for field, want := range map[string]string{
		"containers":         "array",
		"containers[].name":  "string",
		"containers[].image": "string",
	} {
		if kind := typeAt(schemas, prefix, spec, field); kind != want {
			v.fail(a, fmt.Sprintf("in %s the type of spec.%s of a FarmPod is %s, "+
				"so that kubectl explain farmpods.spec.containers works", a.path, field, want),
				fmt.Sprintf("it is %q", kind))
		}
	}
}

// typeAt returns the type of a field such as "containers[].name" or "labels{}". It is empty if the first field is not
// described.
func typeAt(schemas map[string]any, prefix string, object map[string]any, path string) string {
	for i, field := range strings.Split(path, ".") {
		name := strings.TrimRight(field, "[]{}")
		next := resolve(schemas, prefix, object, name)
		if len(next) == 0 {
			if i == 0 {
				return ""
			}
			return "not described"
		}
		inside := map[bool]string{true: "items", false: "additionalProperties"}[strings.HasSuffix(field, "[]")]
		if name != field {
			part, _, _ := unstructured.NestedMap(next, inside)
			if next = referred(schemas, prefix, part); len(next) == 0 {
				return "not described"
			}
		}
		object = next
	}
	return textOf(object, "type")
}

// resolve returns a property's schema, and follows a reference if there is one.
func resolve(schemas map[string]any, prefix string, object map[string]any, property string) map[string]any {
	found, _, _ := unstructured.NestedMap(object, "properties", property)
	return referred(schemas, prefix, found)
}

// referred returns a schema, and follows a reference if there is one.
func referred(schemas map[string]any, prefix string, found map[string]any) map[string]any {
	reference := textOf(found, "$ref")
	// This form adds a description to a reference.
	if all, _, _ := unstructured.NestedSlice(found, "allOf"); len(all) == 1 {
		one, _ := all[0].(map[string]any)
		reference = textOf(one, "$ref")
	}
	if referred, ok := schemas[strings.TrimPrefix(reference, prefix)].(map[string]any); ok && reference != "" {
		return referred
	}
	return found
}
