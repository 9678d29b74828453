// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

func (q *request) wants(kind string) bool {
	return strings.Contains(q.Header.Get("Accept"), "as="+kind)
}

func (q *request) show(w http.ResponseWriter, code int, o object) { answer(w, code, q.form(o)) }

// form returns an object, or a list, in the form that the client requested.
func (q *request) form(o object) object {
	items, list := o["items"].([]object)
	if !list {
		items = []object{o}
	}
	switch {
	case q.wants("Table"):
		return q.table(items, o.at("metadata"))
	case q.wants("PartialObjectMetadata"):
		for i, item := range items {
			items[i] = partial(item)
		}
		if list {
			return object{
				"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
				"metadata": o["metadata"], "items": items,
			}
		}
		return items[0]
	}
	return o
}

func partial(o object) object {
	return object{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o["metadata"]}
}

func (q *request) table(items []object, metadata object) object {
	columns := []object{{"name": "Name", "type": "string", "format": "name", "description": "Its name.", "priority": 0}}
	for _, column := range map[string][][2]string{
		"llamas": {{"Weight", "number"}, {"Height", "number"}}, "farmpods": {{"Containers", "integer"}, {"Images", "string"}},
	}[q.resource] {
		columns = append(columns, object{
			"name": column[0], "type": column[1], "format": "", "description": "", "priority": 0,
		})
	}
	columns = append(columns, object{
		"name": "Age", "type": "string", "format": "", "description": "How old it is.", "priority": 0,
	})
	rows := []object{}
	for _, item := range items {
		cells := []any{item.at("metadata")["name"], item.at("spec")["weight"], item.at("spec")["height"]}
		if q.resource == "farmpods" {
			containers, _ := item.at("spec")["containers"].([]any)
			var images []string
			for _, c := range containers {
				images = append(images, c.(object).text("image"))
			}
			cells = []any{item.at("metadata")["name"], len(containers), strings.Join(images, ",")}
		}
		row := object{"cells": append(cells, age(item.at("metadata").text("creationTimestamp"))), "object": partial(item)}
		switch q.URL.Query().Get("includeObject") {
		case "Object":
			row["object"] = item
		case "None":
			row["object"] = nil
		}
		rows = append(rows, row)
	}
	shown := object{"resourceVersion": metadata["resourceVersion"]}
	if metadata["continue"] != nil {
		shown["continue"] = metadata["continue"]
	}
	return object{
		"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": shown, "columnDefinitions": columns, "rows": rows,
	}
}

func age(since string) string {
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return "<unknown>"
	}
	return time.Since(at).Truncate(time.Second).String()
}

func farmPod(pod object) object {
	metadata := pod.at("metadata")
	containers := []any{}
	found, _ := pod.at("spec")["containers"].([]any)
	for _, c := range found {
		if one, ok := c.(map[string]any); ok {
			containers = append(containers, object{"name": one["name"], "image": one["image"]})
		}
	}
	return object{
		"apiVersion": groupVersion, "kind": "FarmPod",
		"metadata": object{
			"name": "farm-" + metadata.text("name"), "namespace": metadata["namespace"], "uid": "farm-" + metadata.text("uid"),
			"creationTimestamp": metadata["creationTimestamp"], "resourceVersion": metadata["resourceVersion"],
			"labels": metadata.at("labels"),
		},
		"spec": object{"containers": containers},
	}
}

// farmPods answers with the cluster's Pods if the user may read them.
func (f *farm) farmPods(w http.ResponseWriter, q *request) error {
	pod, ok := strings.CutPrefix(q.name, "farm-")
	if q.name != "" && !ok {
		return missing(q)
	}
	if err := f.allow(q, "", "pods", pod); err != nil {
		return err
	}
	chosen, err := q.selector()
	if err != nil {
		return err
	}
	path := "/api/v1"
	if q.namespace != "" {
		path += "/namespaces/" + url.PathEscape(q.namespace)
	}
	path += "/pods"
	if q.name != "" {
		path += "/" + url.PathEscape(pod)
	}
	if q.verb == "watch" {
		ctx, cancel := f.limited(q)
		defer cancel()
		var send func(string, object) error
		query := url.Values{"watch": {"1"}, "resourceVersion": {q.URL.Query().Get("resourceVersion")}}
		err := f.api.events(ctx, path+"?"+query.Encode(), func() { send = q.stream(w) }, func(kind string, pod object) error {
			if kind == "ERROR" {
				return send(kind, pod)
			}
			if o := farmPod(pod); chosen(o) {
				return send(kind, o)
			}
			return nil
		})
		if send == nil {
			return refuse(503, "ServiceUnavailable", "the cluster's Pods can't be watched: %s", err)
		}
		return nil
	}
	found, err := f.api.read(q.Context(), http.MethodGet, path, nil)
	if err != nil && q.name != "" && strings.Contains(err.Error(), ": 404 ") {
		return missing(q)
	}
	if err != nil {
		return refuse(503, "ServiceUnavailable", "the cluster's Pods can't be read: %s", err)
	}
	if q.name != "" {
		q.show(w, 200, farmPod(found))
		return nil
	}
	items := []object{}
	pods, _ := found["items"].([]any)
	for _, p := range pods {
		if o := farmPod(p.(map[string]any)); chosen(o) {
			items = append(items, o)
		}
	}
	q.show(w, 200, object{
		"apiVersion": groupVersion, "kind": "FarmPodList",
		"metadata": object{"resourceVersion": found.at("metadata")["resourceVersion"]}, "items": items,
	})
	return nil
}

// documents are the answers that do not depend on the request.
var documents = func() map[string]json.RawMessage {
	one := `{"groupVersion":"` + groupVersion + `","version":"` + version + `"}`
	g := `"name":"` + group + `","versions":[` + one + `],"preferredVersion":` + one
	kind := func(name string) string {
		return `"x-kubernetes-group-version-kind":[{"group":"` + group +
			`","version":"` + version + `","kind":"` + name + `"}]`
	}
	schema := `{"com.example.farm.v1alpha.Llama":{"type":"object","description":"A llama of the farm.",` + kind("Llama") + `,"properties":{
"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"},
"spec":{"type":"object","description":"What it is like.","required":["weight","height"],"properties":{
"weight":{"type":"number","format":"double","description":"Its weight in kilograms."},
"height":{"type":"number","format":"double","description":"Its height in metres."}}}}},
"com.example.farm.v1alpha.FarmPod":{"type":"object","description":"A Pod, seen from the farm.",` + kind("FarmPod") + `,"properties":{
"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"},
"spec":{"type":"object","description":"What is in it.","properties":{"containers":{"type":"array","description":"Its containers.","items":{"type":"object",
"properties":{"name":{"type":"string","description":"The container's name."},"image":{"type":"string","description":"Its image."}}}}}}}}}`
	action := func(name string) string {
		return `{"get":{"operationId":"list` + name +
			`","x-kubernetes-action":"list","x-kubernetes-group-version-kind":{"group":"` + group +
			`","version":"` + version +
			`","kind":"` + name + `"},"responses":{"200":{"description":"OK"}}}}`
	}
	paths := `{"` + root + `/llamas":` + action("Llama") + `,"` + root + `/farmpods":` + action("FarmPod") + `}`
	info := `"info":{"title":"plainfarm","version":"1"}`
	return map[string]json.RawMessage{
		"/apis":          json.RawMessage(`{"kind":"APIGroupList","apiVersion":"v1","groups":[{` + g + `}]}`),
		"/apis/" + group: json.RawMessage(`{"kind":"APIGroup","apiVersion":"v1",` + g + `}`),
		root: json.RawMessage(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"` + groupVersion + `","resources":[
{"name":"llamas","singularName":"llama","namespaced":true,"kind":"Llama","shortNames":["ll"],"verbs":["create","delete","deletecollection","get","list","patch","update","watch"]},
{"name":"farmpods","singularName":"farmpod","namespaced":true,"kind":"FarmPod","shortNames":["fp"],"verbs":["get","list","watch"]}]}`),
		"/openapi/v2": json.RawMessage(`{"swagger":"2.0",` + info +
			`,"paths":` + paths + `,"definitions":` + schema + `}`),
		"/openapi/v3": json.RawMessage(`{"paths":{"apis/` + groupVersion +
			`":{"serverRelativeURL":"/openapi/v3` + root + `"}}}`),
		"/openapi/v3" + root: json.RawMessage(`{"openapi":"3.0.0",` + info +
			`,"paths":` + paths + `,"components":{"schemas":` + schema + `}}`),
	}
}()
