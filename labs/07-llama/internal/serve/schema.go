// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// schemas makes the OpenAPI schemas of Go types, and of all types that they are made of. So the document says what the
// server really reads and writes.
type schemas struct {
	prefix string // of references: "#/definitions/" in OpenAPI v2, "#/components/schemas/" in v3
	byName map[string]any
}

// documented is a type that describes its fields: all of Kubernetes' do.
type documented interface{ SwaggerDoc() map[string]string }

// reference returns a reference to the schema of this type, and makes the schema if there is none yet.
func (s schemas) reference(t reflect.Type, description string) map[string]any {
	name := schemaName(t)
	if _, found := s.byName[name]; !found {
		s.byName[name] = nil // a type that contains itself ends here
		s.byName[name] = s.object(t)
	}
	reference := map[string]any{"$ref": s.prefix + name}
	if s.prefix == "#/definitions/" || description == "" {
		return reference
	}
	// In OpenAPI v3 a reference has no siblings, so the description wraps it.
	return map[string]any{"allOf": []any{reference}, "description": description, "default": map[string]any{}}
}

func (s schemas) object(t reflect.Type) map[string]any {
	docs := map[string]string{}
	if d, ok := reflect.TypeAssert[documented](reflect.Zero(t)); ok {
		docs = d.SwaggerDoc()
	}
	properties := map[string]any{}
	var required []string
	for _, field := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" ||
			len(field.Index) > 1 && !strings.HasPrefix(t.Field(field.Index[0]).Tag.Get("json"), ",inline") {
			continue // the fields of an embedded metadata belong to it
		}
		properties[name] = s.of(field.Type, docs[name])
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			required = append(required, name)
		}
	}
	for name, description := range (metav1.TypeMeta{}).SwaggerDoc() {
		if property, ok := properties[name].(map[string]any); ok && name != "" {
			property["description"] = description
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "description": docs[""]}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// of returns the schema of a field.
func (s schemas) of(t reflect.Type, description string) map[string]any {
	schema := map[string]any{"description": description}
	switch {
	case t.Kind() == reflect.Pointer:
		return s.of(t.Elem(), description)
	case t == reflect.TypeFor[metav1.Time](), t == reflect.TypeFor[metav1.MicroTime](), t == reflect.TypeFor[time.Time]():
		schema["type"], schema["format"] = "string", "date-time"
	case t == reflect.TypeFor[metav1.FieldsV1]():
		schema["type"] = "object"
	case t.Kind() == reflect.Struct:
		return s.reference(t, description)
	case t.Kind() == reflect.Slice:
		schema["type"], schema["items"] = "array", s.of(t.Elem(), "")
	case t.Kind() == reflect.Map:
		schema["type"], schema["additionalProperties"] = "object", s.of(t.Elem(), "")
	case t.Kind() == reflect.Bool:
		schema["type"] = "boolean"
	case t.Kind() == reflect.Int32 || t.Kind() == reflect.Int64:
		schema["type"], schema["format"] = "integer", t.Kind().String()
	case t.Kind() == reflect.Float64:
		schema["type"], schema["format"] = "number", "double"
	default:
		schema["type"] = "string"
	}
	if description == "" {
		delete(schema, "description")
	}
	return schema
}

// schemaName names a type as Kubernetes does: io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta,
// com.example.farm.v1alpha.Llama.
func schemaName(t reflect.Type) string {
	if _, path, found := strings.Cut(t.PkgPath(), "k8s.io/"); found {
		return "io.k8s." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
	}
	version := t.PkgPath()[strings.LastIndex(t.PkgPath(), "/")+1:]
	return "com.example.farm." + version + "." + t.Name()
}
