// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve_test

import (
	"strings"
	"testing"
)

func TestAnswers(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	const json0 = `{"apiVersion":"farm.example.com/v1alpha","kind":"Llama","metadata":{`
	for name, test := range map[string]struct {
		method, path, body string
		headers            []string
		code               int
		where              []string
		want               any
	}{
		"group": {
			method: "GET", path: "/apis/farm.example.com",
			code: 200, where: []string{"preferredVersion", "groupVersion"}, want: "farm.example.com/v1alpha",
		},
		"resources": {
			method: "GET", path: root,
			code: 200, where: []string{"groupVersion"}, want: "farm.example.com/v1alpha",
		},
		"aggregated": {
			method:  "GET",
			path:    "/apis",
			headers: []string{"Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
			code:    200,
			where:   []string{"kind"},
			want:    "APIGroupDiscoveryList",
		},
		"get": {method: "GET", path: carla, code: 200, where: []string{"spec", "weight"}, want: 130.5},
		"a tenth": {
			method: "GET", path: root + "/namespaces/farm/llamas/pedro",
			code: 200, where: []string{"spec", "weight"}, want: 0.1,
		},
		"everywhere": {method: "GET", path: root + "/llamas", code: 200, where: []string{"kind"}, want: "LlamaList"},
		"table": {
			method: "GET", path: root + "/llamas", headers: []string{"Accept", tableForm},
			code: 200, where: []string{"kind"}, want: "Table",
		},
		"metadata only": {
			method:  "GET",
			path:    carla,
			headers: []string{"Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
			code:    200,
			where:   []string{"spec"},
		},
		"one object of many": {
			method:  "GET",
			path:    herd,
			headers: []string{"Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
			code:    406,
			where:   []string{"reason"},
			want:    "NotAcceptable",
		},
		"many objects of one": {
			method:  "GET",
			path:    carla,
			headers: []string{"Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
			code:    406,
			where:   []string{"reason"},
			want:    "NotAcceptable",
		},
		"missing object": {method: "GET", path: carla + "x", code: 404, where: []string{"details", "name"}, want: "carlax"},
		"missing path":   {method: "GET", path: root + "/alpacas", code: 404, where: []string{"details"}},
		"not acceptable": {
			method: "GET", path: carla, headers: []string{"Accept", "application/yaml"},
			code: 406, where: []string{"reason"}, want: "NotAcceptable",
		},
		"forbidden": {
			method: "GET", path: carla, headers: []string{"User", "nobody"},
			code: 403, where: []string{"reason"}, want: "Forbidden",
		},
		"unknown field": {
			method: "GET", path: herd + "?fieldSelector=spec.weight=1",
			code: 400, where: []string{"reason"}, want: "BadRequest",
		},
		"from the future": {
			method: "GET", path: herd + "?resourceVersion=99",
			code: 504, where: []string{"reason"}, want: "Timeout",
		},
		"a watch too old": {
			method: "GET", path: herd + "?watch=1&resourceVersion=99",
			code: 504, where: []string{"reason"}, want: "Timeout",
		},
		"create": {
			method: "POST", path: herd, body: json0 + `"name":"luna"},"spec":{"weight":1,"height":2}}`,
			code: 201, where: []string{"metadata", "resourceVersion"}, want: "3",
		},
		"generateName": {
			method: "POST", path: herd, body: json0 + `"generateName":"l-"},"spec":{}}`,
			code: 201, where: []string{"kind"}, want: "Llama",
		},
		"dry run": {
			method: "POST", path: herd + "?dryRun=All", body: json0 + `"name":"luna"},"spec":{}}`,
			code: 201, where: []string{"metadata", "resourceVersion"},
		},
		"strict": {
			method: "POST", path: herd + "?fieldValidation=Strict", body: json0 + `"name":"luna"},"spec":{"legs":4}}`,
			code: 400, where: []string{"reason"}, want: "BadRequest",
		},
		"exists": {
			method: "POST", path: herd, body: json0 + `"name":"carla"},"spec":{}}`,
			code: 409, where: []string{"reason"}, want: "AlreadyExists",
		},
		"negative": {
			method: "POST", path: herd, body: json0 + `"name":"luna"},"spec":{"weight":-1}}`,
			code: 422, where: []string{"reason"}, want: "Invalid",
		},
		"no number": {
			method: "POST", path: herd, body: json0 + `"name":"luna"},"spec":{"weight":"1"}}`,
			code: 400, where: []string{"reason"}, want: "BadRequest",
		},
		"another kind": {
			method: "POST", path: herd, body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`,
			code: 400, where: []string{"reason"}, want: "BadRequest",
		},
		"no version": {
			method: "PUT", path: carla, body: json0 + `"name":"carla"},"spec":{}}`,
			code: 422, where: []string{"reason"}, want: "Invalid",
		},
		"an old version": {
			method: "PUT", path: carla, body: json0 + `"name":"carla","resourceVersion":"99"},"spec":{}}`,
			code: 409, where: []string{"reason"}, want: "Conflict",
		},
		"update": {
			method: "PUT", path: carla, body: json0 + `"name":"carla","resourceVersion":"1"},"spec":{"weight":2}}`,
			code: 200, where: []string{"metadata", "generation"}, want: 2.0,
		},
		"merge patch": {
			method: "PATCH", path: carla, headers: []string{"Content-Type", "application/merge-patch+json"},
			body: `{"spec":{"weight":2}}`,
			code: 200, where: []string{"spec", "height"}, want: 1.1,
		},
		"JSON patch": {
			method: "PATCH", path: carla, headers: []string{"Content-Type", "application/json-patch+json"},
			body: `[{"op":"replace","path":"/spec/weight","value":7}]`,
			code: 200, where: []string{"spec", "weight"}, want: 7.0,
		},
		"a test that fails": {
			method: "PATCH", path: carla, headers: []string{"Content-Type", "application/json-patch+json"},
			body: `[{"op":"test","path":"/spec/weight","value":7}]`,
			code: 422, where: []string{"reason"}, want: "Invalid",
		},
		"doubling copies": {
			method: "PATCH", path: carla, headers: []string{"Content-Type", "application/json-patch+json"},
			body: doubling(512, 6),
			code: 422, where: []string{"reason"}, want: "Invalid",
		},
		"a large outcome": {
			method: "PATCH", path: carla, headers: []string{"Content-Type", "application/json-patch+json"}, body: large(),
			code: 413, where: []string{"reason"}, want: "RequestEntityTooLarge",
		},
		"apply": {
			method: "PATCH", path: carla, headers: []string{"Content-Type", "application/apply-patch+yaml"}, body: "{}",
			code: 415, where: []string{"reason"}, want: "UnsupportedMediaType",
		},
		"unchanged": {
			method: "PATCH", path: carla, headers: []string{"Content-Type", "application/merge-patch+json"}, body: "{}",
			code: 200, where: []string{"metadata", "resourceVersion"}, want: "1",
		},
		"delete": {method: "DELETE", path: carla, code: 200, where: []string{"status"}, want: "Success"},
		"foreground": {
			method: "DELETE", path: carla + "?propagationPolicy=Foreground",
			code: 200, where: []string{"kind"}, want: "Llama",
		},
		"delete another": {
			method: "DELETE", path: carla, body: `{"preconditions":{"uid":"another"}}`,
			code: 409, where: []string{"reason"}, want: "Conflict",
		},
		"delete all": {method: "DELETE", path: herd, code: 200, where: []string{"kind"}, want: "LlamaList"},
		"no such method": {
			method: "POST", path: carla, body: "{}",
			code: 405, where: []string{"reason"}, want: "MethodNotAllowed",
		},
		"too large": {
			method: "POST", path: herd, body: strings.Repeat(" ", 4<<20),
			code: 413, where: []string{"reason"}, want: "RequestEntityTooLarge",
		},
		"another dry run": {
			method: "DELETE", path: carla + "?dryRun=Some",
			code: 422, where: []string{"reason"}, want: "Invalid",
		},
		"another dry run in the options": {
			method: "DELETE", path: carla, body: `{"dryRun":["Some"]}`,
			code: 422, where: []string{"reason"}, want: "Invalid",
		},
		"another dry run, and one in the options": {
			method: "DELETE", path: carla + "?dryRun=Some", body: `{"dryRun":["All"]}`,
			code: 422, where: []string{"reason"}, want: "Invalid",
		},
		"another dry run of a create": {
			method: "POST", path: herd + "?dryRun=Some", body: json0 + `"name":"luna"},"spec":{}}`,
			code: 422, where: []string{"reason"}, want: "Invalid",
		},
		"no dry run": {
			method: "DELETE", path: carla, body: `{"dryRun":[]}`,
			code: 200, where: []string{"status"}, want: "Success",
		},
		"another propagation": {
			method: "DELETE", path: carla, body: `{"propagationPolicy":"Forground"}`,
			code: 422, where: []string{"reason"}, want: "Invalid",
		},
		"a bad continue": {
			method: "GET", path: herd + "?continue=x",
			code: 400, where: []string{"reason"}, want: "BadRequest",
		},
		"initial events, no": {
			method: "GET", path: herd + "?watch=1&sendInitialEvents=true",
			code: 422, where: []string{"reason"}, want: "Invalid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := start(t)
			code, content := ask(t, test.method, url+test.path, test.body, test.headers...)
			if got := at(content, test.where...); code != test.code || got != test.want {
				t.Errorf("got %d and %v, want %d and %v: %v", code, got, test.code, test.want, content)
			}
		})
	}
}

// doubling is a JSON patch that makes an array of so many kilobytes twice as long, as many times, and then removes it.
func doubling(kilobytes, times int) string {
	text := strings.Repeat("x", kilobytes<<10)
	return `[{"op":"add","path":"/wool","value":["` + text + `"]},` +
		strings.Repeat(`{"op":"copy","from":"/wool","path":"/wool/-"},`, times) + `{"op":"remove","path":"/wool"}]`
}

// large is a JSON patch of less than 3 MiB that makes more of a llama.
func large() string {
	return `[{"op":"add","path":"/wool","value":"` + strings.Repeat("x", 2<<20) + `"},` +
		`{"op":"copy","from":"/wool","path":"/more"}]`
}

func TestDryRunStoresNothing(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	url, _ := start(t)
	for _, options := range []string{"", `{}`, `{"dryRun":[]}`, `{"dryRun":null}`, `{"dryRun":["All"]}`} {
		for _, path := range []string{carla, herd} {
			if code, content := ask(t, "DELETE", url+path+"?dryRun=All", options); code != 200 {
				t.Errorf("a dry run with the options %q is answered with %d %v", options, code, content)
			}
		}
	}
	if code, content := ask(t, "GET", url+carla, ""); code != 200 || at(content, "metadata", "resourceVersion") != "1" {
		t.Errorf("after dry runs: %d %v", code, content)
	}
}

func TestPagesAreOfOneVersion(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	url, _ := start(t)
	_, first := ask(t, "GET", url+root+"/llamas?limit=1", "")
	ask(t, "DELETE", url+root+"/namespaces/farm/llamas/pedro", "")
	next, _ := at(first, "metadata", "continue").(string)
	_, second := ask(t, "GET", url+root+"/llamas?limit=1&continue="+next, "")
	items, _ := second["items"].([]any)
	if len(items) != 1 ||
		at(second, "metadata", "resourceVersion") != at(first, "metadata", "resourceVersion") ||
		at(second, "metadata", "continue") != nil {
		t.Errorf("the second page is %v", second)
	}
}

func TestOpenAPIDescribesTheTypes(t *testing.T) {
	t.Skip("TODO(lab): remove this line when the server can do it")
	url, _ := start(t)
	_, index := ask(t, "GET", url+"/openapi/v3", "")
	path, _ := at(index, "paths", "apis/farm.example.com/v1alpha", "serverRelativeURL").(string)
	_, document := ask(t, "GET", url+path, "")
	format := at(document, "components", "schemas",
		"com.example.farm.v1alpha.LlamaSpec", "properties", "weight", "format")
	if format != "double" {
		t.Errorf("the format of spec.weight is %v", format)
	}
	labels := at(document, "components", "schemas",
		"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "properties", "labels")
	if labels == nil {
		t.Error("the metadata is not described")
	}
}
