// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addOpenAPI describes the API in OpenAPI v3, which kubectl explain reads, and in v2, which the API server merges with
// all other servers' and older clients read. kubectl also looks here which parameters a PATCH has before it uses
// --dry-run=server or lets the server validate fields.
func (s *Server) addOpenAPI(mux *http.ServeMux) error {
	v3, err := json.Marshal(s.openAPIv3())
	if err != nil {
		return err
	}
	v2, err := json.Marshal(s.openAPIv2())
	if err != nil {
		return err
	}
	path := "/openapi/v3/apis/" + s.group.String()
	index, err := json.Marshal(map[string]any{"paths": map[string]any{
		"apis/" + s.group.String(): map[string]any{"serverRelativeURL": path + "?hash=" + hash(v3)},
	}})
	if err != nil {
		return err
	}
	// TODO(lab): a7. Serve /openapi/v3, the document to which it refers, and /openapi/v2.
	_, _ = index, v2
	return nil
}

// document answers with a document that never changes, or says that the client has it already.
func document(content []byte) http.HandlerFunc {
	etag := `"` + hash(content) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(content)
	}
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func (s *Server) openAPIv3() map[string]any {
	types := schemas{prefix: "#/components/schemas/", byName: map[string]any{}}
	return map[string]any{
		"openapi":    "3.0.0",
		"info":       map[string]any{"title": s.group.Group, "version": s.group.Version},
		"paths":      s.paths(types, true),
		"components": map[string]any{"schemas": types.byName},
	}
}

func (s *Server) openAPIv2() map[string]any {
	types := schemas{prefix: "#/definitions/", byName: map[string]any{}}
	return map[string]any{
		"swagger":     "2.0",
		"info":        map[string]any{"title": s.group.Group, "version": s.group.Version},
		"paths":       s.paths(types, false),
		"definitions": types.byName,
	}
}

// paths describes what can be done with each resource.
func (s *Server) paths(types schemas, v3 bool) map[string]any {
	paths := map[string]any{}
	for _, r := range s.resources {
		gvk := map[string]any{"group": s.group.Group, "version": s.group.Version, "kind": r.Kind}
		object, list := types.reference(typeOf(r.Object), ""), types.reference(typeOf(r.List), "")
		// Clients find the schema of a kind by this.
		types.byName[schemaName(typeOf(r.Object))].(map[string]any)["x-kubernetes-group-version-kind"] = []any{gvk}

		operation := func(verb, action string, schema map[string]any, consumes ...string) map[string]any {
			return describe(v3, verb+r.Kind, action, gvk, schema, consumes)
		}
		root := "/apis/" + s.group.String()
		everywhere := map[string]any{"get": operation("listAll", "list", list)}
		collection := map[string]any{"get": operation("list", "list", list), "parameters": pathParameters(v3, "namespace")}
		single := map[string]any{
			"get": operation("get", "get", object), "parameters": pathParameters(v3, "namespace", "name"),
		}
		if r.Writer != nil {
			collection["post"] = operation("create", "post", object, "application/json")
			collection["delete"] = operation("deleteAll", "deletecollection",
				types.reference(reflect.TypeFor[metav1.Status](), ""))
			single["put"] = operation("replace", "put", object, "application/json")
			single["patch"] = operation("patch", "patch", object, "application/json-patch+json", "application/merge-patch+json")
			single["delete"] = operation("delete", "delete", types.reference(reflect.TypeFor[metav1.Status](), ""))
		}
		paths[root+"/"+r.Plural] = everywhere
		paths[root+"/namespaces/{namespace}/"+r.Plural] = collection
		paths[root+"/namespaces/{namespace}/"+r.Plural+"/{name}"] = single
	}
	return paths
}

func typeOf(object any) reflect.Type { return reflect.TypeOf(object).Elem() }

// describe is one operation of a path.
func describe(v3 bool, id, action string, gvk, schema map[string]any, consumes []string) map[string]any {
	operation := map[string]any{
		"operationId":                     id,
		"x-kubernetes-action":             action,
		"x-kubernetes-group-version-kind": gvk,
	}
	var parameters []any
	if action != "get" && action != "list" {
		parameters = append(parameters, parameter(v3, "dryRun", "query"), parameter(v3, "fieldValidation", "query"))
	}
	body := map[string]any{"type": "object"}
	if action != "patch" {
		body = schema
	}
	if v3 {
		operation["responses"] = map[string]any{"200": map[string]any{
			"description": "OK", "content": map[string]any{"application/json": map[string]any{"schema": schema}},
		}}
		content := map[string]any{}
		for _, kind := range consumes {
			content[kind] = map[string]any{"schema": body}
		}
		if len(content) > 0 {
			operation["requestBody"] = map[string]any{"required": true, "content": content}
		}
	} else {
		operation["responses"] = map[string]any{"200": map[string]any{"description": "OK", "schema": schema}}
		operation["produces"] = []string{"application/json"}
		if len(consumes) > 0 {
			operation["consumes"] = consumes
			parameters = append(parameters, map[string]any{"name": "body", "in": "body", "required": true, "schema": body})
		}
	}
	operation["parameters"] = parameters
	return operation
}

func pathParameters(v3 bool, names ...string) []any {
	var parameters []any
	for _, name := range names {
		parameters = append(parameters, parameter(v3, name, "path"))
	}
	return parameters
}

func parameter(v3 bool, name, in string) map[string]any {
	p := map[string]any{"name": name, "in": in}
	if in == "path" {
		p["required"] = true
	}
	if v3 {
		p["schema"] = map[string]any{"type": "string"}
	} else {
		p["type"] = "string"
	}
	return p
}
