// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

// The llamas that a farm has when it starts for the first time: see the task.
var (
	carla = herdLlama{"default", "carla", 130.5, 1.1}
	pedro = herdLlama{"farm", "pedro", 0.1, 0.3}
)

type herdLlama struct {
	namespace, name string
	weight, height  float64
}

// availablePatience is for the API server to find a server that answers. The stage has waited before.
const availablePatience = 3 * time.Second

func discovered() types.Feature {
	return features.New("discovery").
		Assess("the API server finds the group version", check.Assess(step(func(v visit) {
			var a answer
			v.eventually("the API server reaches the group version: GET "+root+" answers 200, and the APIService is Available",
				availablePatience, v.touching(func() (string, bool) {
					a = v.send(v.ctx, http.MethodGet, root, nil)
					told, available := v.condition()
					return fmt.Sprintf("GET %s answers %s, and %s", root, a.told(), told), available && a.code == http.StatusOK
				}))
			v.hasLlamas(a)
		}))).
		Assess("the server's own documents", check.Assess(step(func(v visit) {
			p, ok := v.proxy()
			if !ok {
				return // through the API server nobody sees them: it answers these paths itself
			}
			a := v.want(p.send(v.ctx, http.MethodGet, "/apis/"+group, nil, admin...), "the server answers /apis/"+group+" with an APIGroup", http.StatusOK)
			if object := a.object(); textOf(object, "kind") != "APIGroup" || textOf(object, "name") != group {
				v.fail(a, "/apis/"+group+" is an APIGroup with the group's name", fmt.Sprintf("it has the kind %q and the name %q", textOf(object, "kind"), textOf(object, "name")))
			}
		}))).Feature()
}

// hasLlamas fails the check unless a list of resources has llamas.
func (v visit) hasLlamas(a answer) {
	v.t.Helper()
	const expected = "the list of resources has llamas, of the kind Llama, namespaced, with the verbs get and list"
	if kind := textOf(a.object(), "kind"); kind != "APIResourceList" {
		v.fail(a, "GET "+root+" answers an APIResourceList", fmt.Sprintf("the answer's kind is %q", kind))
	}
	found := resourcesIn(a)
	for _, resource := range found {
		if textOf(resource, "name") != "llamas" {
			continue
		}
		namespaced, _, _ := unstructured.NestedBool(resource, "namespaced")
		verbs, _, _ := unstructured.NestedStringSlice(resource, "verbs")
		if textOf(resource, "kind") != "Llama" || !namespaced || !slices.Contains(verbs, "get") || !slices.Contains(verbs, "list") {
			v.fail(a, expected, fmt.Sprintf("llamas have the kind %q, namespaced is %t, and the verbs are %v", textOf(resource, "kind"), namespaced, verbs))
		}
		return
	}
	v.fail(a, expected, fmt.Sprintf("there are no llamas among its %d resources", len(found)))
}

// resourcesIn are those of an APIResourceList.
func resourcesIn(a answer) (all []map[string]any) {
	found, _, _ := unstructured.NestedSlice(a.object(), "resources")
	for _, resource := range found {
		if resource, ok := resource.(map[string]any); ok {
			all = append(all, resource)
		}
	}
	return all
}

// described fails the check unless a resource of discovery, of either form, has these names and verbs. Nil is any verbs.
func (v visit) described(a answer, resource map[string]any, plural, kind, singular, short string, verbs []string) {
	v.t.Helper()
	shorts, _, _ := unstructured.NestedStringSlice(resource, "shortNames")
	named := textOf(resource, "singularName") + textOf(resource, "singularResource") // one for each form
	if named != singular || !slices.Equal(shorts, []string{short}) {
		v.fail(a, fmt.Sprintf("in discovery %s have the singular name %s and the short name %s", plural, singular, short),
			fmt.Sprintf("the singular name is %q, and the short names are %v", named, shorts))
	}
	has, _, _ := unstructured.NestedStringSlice(resource, "verbs")
	if slices.Sort(has); verbs != nil && !slices.Equal(has, verbs) {
		v.fail(a, fmt.Sprintf("in discovery %s have the verbs %v", plural, verbs), fmt.Sprintf("they have %v", has))
	}
	if told := textOf(resource, "kind") + textOf(resource, "responseKind", "kind"); told != kind {
		v.fail(a, fmt.Sprintf("in discovery %s have the kind %s", plural, kind), fmt.Sprintf("it is %q", told))
	}
}

// bystanders are resources of others, which the whole cluster needs.
var bystanders = []schema.GroupVersionResource{
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "namespaces"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
}

func harmless() types.Feature {
	return features.New("others are not harmed").
		Assess("clients that ask each group find all kinds", check.Assess(step(func(v visit) {
			client, err := discovery.NewDiscoveryClientForConfig(v.Config)
			v.OK(v.t, "making a client", err)
			client.UseLegacyDiscovery = true // as clients do that ask each group, and keep the answers by the group version in them
			all, err := restmapper.GetAPIGroupResources(client)
			v.OK(v.t, "asking each group for its resources", err)
			mapper := restmapper.NewDiscoveryRESTMapper(all)
			a := v.send(v.ctx, http.MethodGet, root, nil)
			for _, other := range bystanders {
				if _, err := mapper.ResourceFor(other); err != nil {
					v.fail(a, "a client that asks each group for its resources finds those of the others, as "+other.Resource,
						fmt.Sprintf("it finds no %s any more: GET %s answers the groupVersion %q, and that list has replaced the right one", other.Resource, root, textOf(a.object(), "groupVersion")))
				}
			}
			if told := textOf(a.object(), "groupVersion"); told != groupVersion {
				v.fail(a, "GET "+root+" answers the groupVersion "+groupVersion, fmt.Sprintf("it answers the groupVersion %q", told))
			}
		}))).
		Assess("objects name their group version", check.Assess(step(func(v visit) {
			for _, path := range []string{llamas(carla.namespace), llama(carla.namespace, carla.name)} {
				a := v.send(v.ctx, http.MethodGet, path, nil)
				if a.code != http.StatusOK {
					continue // that is for other checks
				}
				if told := textOf(a.object(), "apiVersion"); told != groupVersion {
					v.fail(a, "GET "+path+" answers the apiVersion "+groupVersion, fmt.Sprintf("it answers the apiVersion %q", told))
				}
			}
		}))).Feature()
}

// acceptDiscovery asks for aggregated discovery, as the API server's aggregator does.
const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

func aggregatedDiscovery() types.Feature {
	return features.New("aggregated discovery").
		Assess("one answer has all", check.Assess(step(func(v visit) {
			a := v.send(v.ctx, http.MethodGet, "/apis", nil, "Accept", acceptDiscovery)
			if p, ok := v.proxy(); ok {
				a = p.send(v.ctx, http.MethodGet, "/apis", nil, append([]string{"Accept", acceptDiscovery}, admin...)...)
			}
			v.want(a, "/apis answers aggregated discovery", http.StatusOK)
			const expected = "to a client that asks for it, /apis answers an APIGroupDiscoveryList, and says so in its Content-Type (as=APIGroupDiscoveryList)"
			_, parameters, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
			if kind := textOf(a.object(), "kind"); kind != "APIGroupDiscoveryList" || parameters["as"] != "APIGroupDiscoveryList" {
				v.fail(a, expected, fmt.Sprintf("the answer's kind is %q, and its Content-Type %q", kind, a.header.Get("Content-Type")))
			}
			older := v.send(v.ctx, http.MethodGet, root, nil)
			for _, found := range a.items() {
				if nameOf(found) != group {
					continue
				}
				versions, _, _ := unstructured.NestedSlice(found, "versions")
				for _, version := range versions {
					version, _ := version.(map[string]any)
					resources, _, _ := unstructured.NestedSlice(version, "resources")
					for _, resource := range resources {
						resource, _ := resource.(map[string]any)
						verbs, _, _ := unstructured.NestedStringSlice(resource, "verbs")
						if textOf(version, "version") == "v1alpha" && textOf(resource, "resource") == "llamas" &&
							textOf(resource, "responseKind", "kind") == "Llama" && textOf(resource, "scope") == "Namespaced" && slices.Contains(verbs, "list") {
							v.described(a, resource, "llamas", "Llama", "llama", "ll", nil)
							v.sameAs(older, a, resources)
							return
						}
					}
				}
			}
			v.fail(a, "aggregated discovery has llamas in the version v1alpha of "+group+", with responseKind, scope Namespaced and verbs", "it has not")
		}))).Feature()
}

// sameAs fails the check unless the resources of aggregated discovery are those of the older document, each with the same names and
// verbs.
func (v visit) sameAs(older, a answer, resources []any) {
	v.t.Helper()
	for _, was := range resourcesIn(older) {
		name := textOf(was, "name")
		if name == "llamas" {
			v.described(older, was, "llamas", "Llama", "llama", "ll", nil)
		}
		if strings.Contains(name, "/") {
			continue // subresources are inside of their resource in the newer form
		}
		i := slices.IndexFunc(resources, func(resource any) bool {
			is, _ := resource.(map[string]any)
			return textOf(is, "resource") == name
		})
		if i < 0 {
			v.fail(a, "aggregated discovery has each resource of GET "+root, "it has no "+name)
		}
		shorts, _, _ := unstructured.NestedStringSlice(was, "shortNames")
		verbs, _, _ := unstructured.NestedStringSlice(was, "verbs")
		slices.Sort(verbs)
		is, _ := resources[i].(map[string]any)
		shown, _, _ := unstructured.NestedStringSlice(is, "shortNames")
		if !slices.Equal(shown, shorts) {
			v.fail(a, fmt.Sprintf("aggregated discovery has the short names of GET %s: %v for %s", root, shorts, name), fmt.Sprintf("it has %v", shown))
		}
		has, _, _ := unstructured.NestedStringSlice(is, "verbs")
		if slices.Sort(has); !slices.Equal(has, verbs) {
			v.fail(a, fmt.Sprintf("aggregated discovery has the verbs of GET %s: %v for %s", root, verbs, name), fmt.Sprintf("it has %v", has))
		}
	}
}

func list() types.Feature {
	return features.New("list").
		Assess("the llamas of one namespace", check.Assess(step(func(v visit) {
			for _, of := range []herdLlama{carla, pedro} {
				a := v.want(v.send(v.ctx, http.MethodGet, llamas(of.namespace), nil), "the llamas of a namespace can be listed", http.StatusOK)
				if kind := textOf(a.object(), "kind"); kind != "LlamaList" {
					v.fail(a, "a list is a LlamaList", fmt.Sprintf("the answer's kind is %q", kind))
				}
				if names := a.names(); !slices.Contains(names, of.name) {
					v.fail(a, fmt.Sprintf("the list of the namespace %s has the llama %s, which a new farm has", of.namespace, of.name), fmt.Sprintf("it has %v", names))
				}
				for _, item := range a.items() {
					if textOf(item, "metadata", "namespace") != of.namespace {
						v.fail(a, "a list of a namespace has only the llamas of this namespace", fmt.Sprintf("the list of %s has %s of the namespace %q", of.namespace, nameOf(item), textOf(item, "metadata", "namespace")))
					}
					if uidOf(item) == "" || versionOf(item) == "" {
						v.fail(a, "each llama has a UID and a resourceVersion", fmt.Sprintf("%s has the UID %q and the resourceVersion %q", nameOf(item), uidOf(item), versionOf(item)))
					}
				}
				if versionOf(a.object()) == "" {
					v.fail(a, "a list has a resourceVersion, from which a watch can go on", "metadata.resourceVersion is not set")
				}
			}
		}))).
		Assess("by client-go, and of none", check.Assess(step(func(v visit) {
			a := v.send(v.ctx, http.MethodGet, llamas("kube-public"), nil)
			found, err := v.dynamic.Resource(llamaResource).Namespace("kube-public").List(v.ctx, metav1.ListOptions{})
			if err != nil {
				v.fail(a, "client-go can list a namespace without llamas", err.Error())
			}
			if len(found.Items) != 0 {
				v.fail(a, "the list of a namespace without llamas is empty", fmt.Sprintf("it has %d llamas", len(found.Items)))
			}
		}))).Feature()
}

func get() types.Feature {
	return features.New("get").
		Assess("by its name", check.Assess(step(func(v visit) {
			for _, of := range []herdLlama{carla, pedro} {
				path := llama(of.namespace, of.name)
				a := v.want(v.send(v.ctx, http.MethodGet, path, nil), "GET "+path+" answers the llama "+of.name, http.StatusOK)
				object := a.object()
				if textOf(object, "kind") != "Llama" || nameOf(object) != of.name || textOf(object, "metadata", "namespace") != of.namespace {
					v.fail(a, "a get answers the Llama that was asked for",
						fmt.Sprintf("it answers kind %q, name %q, namespace %q", textOf(object, "kind"), nameOf(object), textOf(object, "metadata", "namespace")))
				}
				if _, err := v.dynamic.Resource(llamaResource).Namespace(of.namespace).Get(v.ctx, of.name, metav1.GetOptions{}); err != nil {
					v.fail(a, "client-go can get a llama", err.Error())
				}
			}
		}))).Feature()
}

func allNamespaces() types.Feature {
	return features.New("all namespaces").
		Assess("the llamas of each", check.Assess(step(func(v visit) {
			a := v.want(v.send(v.ctx, http.MethodGet, llamas(""), nil), "the llamas of all namespaces can be listed, as kubectl get llamas -A does", http.StatusOK)
			for _, of := range []herdLlama{carla, pedro} {
				if !slices.ContainsFunc(a.items(), func(item map[string]any) bool {
					return nameOf(item) == of.name && textOf(item, "metadata", "namespace") == of.namespace
				}) {
					v.fail(a, fmt.Sprintf("the list of all namespaces has %s of the namespace %s", of.name, of.namespace), fmt.Sprintf("it has %v", a.names()))
				}
			}
			if output, ok, err := v.kubectl("", "get", "llamas", "-A"); ok && (err != nil || !strings.Contains(output, pedro.name)) {
				v.Fail(v.t, "kubectl get llamas -A shows pedro", "it prints: "+strings.TrimSpace(output))
			}
		}))).Feature()
}

func mediaTypes() types.Feature {
	return features.New("media types").
		Assess("each answer says what it is", check.Assess(step(func(v visit) {
			for _, path := range []string{root, llamas(carla.namespace), llama(carla.namespace, carla.name), llama(carla.namespace, "nobody")} {
				a := v.send(v.ctx, http.MethodGet, path, nil)
				if a.object() == nil {
					continue // there is no answer in JSON, and that is for other checks
				}
				if media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); media != "application/json" {
					v.fail(a, "the answer to GET "+path+" has the Content-Type application/json", fmt.Sprintf("it has %q", a.header.Get("Content-Type")))
				}
			}
		}))).
		Assess("metadata alone", check.Assess(step(func(v visit) {
			if plain := v.send(v.ctx, http.MethodGet, llamas(carla.namespace), nil); !slices.Contains(plain.names(), carla.name) {
				return // that is for another check
			}
			// The garbage collector and the deletion of a namespace ask in this way.
			client, err := metadata.NewForConfig(v.Config)
			v.OK(v.t, "making a client", err)
			found, err := client.Resource(llamaResource).Namespace(carla.namespace).List(v.ctx, metav1.ListOptions{})
			if err != nil || !slices.ContainsFunc(found.Items, func(o metav1.PartialObjectMetadata) bool { return o.Name == carla.name }) {
				a := v.send(v.ctx, http.MethodGet, llamas(carla.namespace), nil, "Accept", acceptMetadata)
				observed := "it does not have carla"
				if err != nil {
					observed = err.Error()
				}
				v.fail(a, "client-go's metadata client lists llamas (PartialObjectMetadataList)", observed)
			}
		}))).Feature()
}

func notFound() types.Feature {
	return features.New("what does not exist").
		Assess("a llama, and a path", check.Assess(step(func(v visit) {
			path := llama(carla.namespace, "nobody")
			a := v.want(v.send(v.ctx, http.MethodGet, path, nil), "GET of a llama that does not exist answers 404", http.StatusNotFound)
			if !a.isStatus("NotFound") || textOf(a.object(), "details", "name") != "nobody" || textOf(a.object(), "details", "kind") != "llamas" {
				v.fail(a, `the answer is a Status with the reason NotFound, and details with the name "nobody" and the kind "llamas"`,
					fmt.Sprintf("kind is %q, reason %q, details.name %q, details.kind %q", textOf(a.object(), "kind"), textOf(a.object(), "reason"),
						textOf(a.object(), "details", "name"), textOf(a.object(), "details", "kind")))
			}
			v.about(a, "llamas", "nobody")
			a = v.want(v.send(v.ctx, http.MethodGet, resources(carla.namespace, "alpacas"), nil), "GET of a resource that is not served answers 404", http.StatusNotFound)
			if textOf(a.object(), "details", "name") != "" {
				v.fail(a, "a path that does not exist is told from an object that does not: its Status names no object", "details.name is "+textOf(a.object(), "details", "name"))
			}
		}))).Feature()
}

// exactly are numbers that 32-bit floats, a detour through text of a fixed length, or a field that is left out, would change.
var exactly = []float64{0.1, 16777217, 1e21, 123456789.12345679, 1e-7, 0, math.MaxFloat64, math.SmallestNonzeroFloat64}

func numbers() types.Feature {
	return features.New("numbers").
		Assess("those of the farm", check.Assess(step(func(v visit) {
			for _, of := range []herdLlama{carla, pedro} {
				a := v.want(v.send(v.ctx, http.MethodGet, llamas(of.namespace), nil), "the llamas of a namespace can be listed", http.StatusOK)
				for _, item := range a.items() {
					if nameOf(item) != of.name {
						continue
					}
					v.exact(a, item, "weight", of.weight)
					v.exact(a, item, "height", of.height)
				}
			}
		}))).
		Assess("and others, where llamas can be created", check.Assess(step(func(v visit) {
			for i, number := range exactly {
				a := v.send(v.ctx, http.MethodPost, llamas(here), newLlama(fmt.Sprintf("number-%d", i), number, number))
				if a.code != http.StatusCreated {
					return // that is for another check
				}
				a = v.send(v.ctx, http.MethodGet, llama(here, fmt.Sprintf("number-%d", i)), nil)
				if a.code == http.StatusOK {
					v.exact(a, a.object(), "weight", number)
					v.exact(a, a.object(), "height", number)
				}
			}
			list := v.send(v.ctx, http.MethodGet, llamas(here), nil)
			for _, item := range list.items() {
				var i int
				if _, err := fmt.Sscanf(nameOf(item), "number-%d", &i); err == nil && i < len(exactly) {
					v.exact(list, item, "weight", exactly[i])
					v.exact(list, item, "height", exactly[i])
				}
			}
		}))).Feature()
}

// exact fails the check unless a number is as it was written.
func (v visit) exact(a answer, object map[string]any, field string, want float64) {
	v.t.Helper()
	if got, ok := numberOf(object, "spec", field).(float64); !ok || got != want {
		text, _ := json.Marshal(numberOf(object, "spec", field))
		v.fail(a, fmt.Sprintf("spec.%s of %s is %v", field, nameOf(object), want), "it is "+string(text))
	}
}

// acceptTable asks for a table, as kubectl get does.
const acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

func table() types.Feature {
	return features.New("tables").
		Assess("of a list and of one", check.Assess(step(func(v visit) {
			for _, path := range []string{llamas(carla.namespace), llama(carla.namespace, carla.name)} {
				v.row(path, carla.name, []column{{"Name", carla.name}, {"Weight", carla.weight}, {"Height", carla.height}, {"Age", nil}})
			}
			if v.send(v.ctx, http.MethodPost, llamas(here), newLlama("weightless", 0, 0)).code == http.StatusCreated { // or that is for another check
				v.row(llamas(here), "weightless", []column{{"Name", "weightless"}, {"Weight", 0}, {"Height", 0}, {"Age", nil}})
			}
			if output, ok, err := v.kubectl("", "get", "llamas", "-n", carla.namespace); ok && (err != nil || !strings.Contains(output, "WEIGHT")) {
				v.Fail(v.t, "kubectl get llamas shows the columns", "it prints: "+strings.TrimSpace(output))
			}
		}))).Feature()
}

// column is one of a Table: its name, and its cell for one object. Which of columnTypes it has is up to the server.
type column struct {
	name string
	cell any // nil is anything, and a list of texts a text that has them all
}

// columnTypes are those of a Table's columns, from metav1.TableColumnDefinition.
var columnTypes = sets.New("string", "number", "integer", "boolean", "date")

func (c column) shows(cell any) bool {
	switch want := c.cell.(type) {
	case nil:
		return true
	case []string:
		return !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(fmt.Sprint(cell), part) })
	default:
		return fmt.Sprint(cell) == fmt.Sprint(want)
	}
}

// row fails the check unless a path answers a Table with these columns, and with an object of this name.
func (v visit) row(path, name string, want []column) {
	v.t.Helper()
	a := v.want(v.send(v.ctx, http.MethodGet, path, nil, "Accept", acceptTable), "GET "+path+" answers a Table", http.StatusOK)
	var t metav1.Table
	if err := json.Unmarshal(a.body, &t); err != nil || t.Kind != "Table" || t.APIVersion != "meta.k8s.io/v1" {
		v.fail(a, "GET "+path+" answers a Table of meta.k8s.io/v1 to who asks for one", fmt.Sprintf("it answers kind %q, apiVersion %q", t.Kind, t.APIVersion))
	}
	var names, wanted []string
	var shown []int
	for i, column := range t.ColumnDefinitions {
		if !columnTypes.Has(column.Type) {
			v.fail(a, "the type of a column is one of "+english.OxfordWordSeries(sets.List(columnTypes), "or"), fmt.Sprintf("the type of %s is %q", column.Name, column.Type))
		}
		if column.Priority == 0 {
			names, shown = append(names, column.Name), append(shown, i)
		}
	}
	for _, column := range want {
		wanted = append(wanted, column.name)
	}
	if !slices.Equal(names, wanted) {
		v.fail(a, fmt.Sprintf("the columns are %v", wanted), fmt.Sprintf("they are %v", names))
	}
	i := slices.IndexFunc(t.Rows, func(row metav1.TableRow) bool { return len(row.Cells) > 0 && row.Cells[0] == name })
	if i < 0 {
		v.fail(a, "a row begins with the name "+name, fmt.Sprintf("none of %d rows does", len(t.Rows)))
	}
	row := t.Rows[i]
	if len(row.Cells) != len(t.ColumnDefinitions) {
		v.fail(a, "the row of "+name+" has a cell for each column", fmt.Sprintf("the cells are %v", row.Cells))
	}
	for i, column := range want {
		if cell := row.Cells[shown[i]]; !column.shows(cell) {
			v.fail(a, fmt.Sprintf("in the row of %s, the cell %s is %v", name, column.name, column.cell), fmt.Sprintf("it is %v", cell))
		}
	}
	var object map[string]any
	if json.Unmarshal(row.Object.Raw, &object) != nil || nameOf(object) != name {
		v.fail(a, "each row has the object's metadata, from which kubectl takes the namespace", "the row of "+name+" has no object with this name")
	}
}

// openAPIPatience is for the API server to fetch the server's documents.
const openAPIPatience = 3 * time.Second

func explain() types.Feature {
	return features.New("OpenAPI").
		Assess("v3", check.Assess(step(func(v visit) {
			var a answer
			v.eventually("OpenAPI v3 (/openapi/v3/apis/"+groupVersion+") describes Llama: spec.weight and spec.height are numbers",
				openAPIPatience, v.touching(func() (string, bool) {
					a = v.send(v.ctx, http.MethodGet, "/openapi/v3/apis/"+groupVersion, nil)
					if a.code != http.StatusOK {
						return "the answer is " + a.told(), false
					}
					schemas, _, _ := unstructured.NestedMap(a.object(), "components", "schemas")
					return describes(schemas, "#/components/schemas/")
				}))
			v.wellFormed(a)
			schemas, _, _ := unstructured.NestedMap(a.object(), "components", "schemas")
			v.fieldTypes(a, schemas, "#/components/schemas/")
			if output, ok, err := v.kubectl("", "explain", "llamas.spec.weight"); ok && (err != nil || !strings.Contains(output, "number")) {
				v.Fail(v.t, "kubectl explain llamas.spec.weight says that it is a number", "it prints: "+strings.TrimSpace(output))
			}
		}))).
		Assess("v2", check.Assess(step(func(v visit) {
			p, ok := v.proxy()
			if !ok {
				return // the API server fetches it once a minute
			}
			a := v.want(p.send(v.ctx, http.MethodGet, "/openapi/v2", nil, admin...), "the server answers /openapi/v2", http.StatusOK)
			definitions, _, _ := unstructured.NestedMap(a.object(), "definitions")
			if observed, ok := describes(definitions, "#/definitions/"); !ok {
				v.fail(a, "OpenAPI v2 (/openapi/v2) describes Llama: spec.weight and spec.height are numbers", observed)
			}
			v.fieldTypes(a, definitions, "#/definitions/")
			v.wellFormed(a)
		}))).Feature()
}

// wellFormed fails the check unless what an OpenAPI document says holds together: programs that make clients of it read all of it.
func (v visit) wellFormed(a answer) {
	v.t.Helper()
	document := a.object()
	paths, _, _ := unstructured.NestedMap(document, "paths")
	for path, item := range paths {
		item, _ := item.(map[string]any)
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if operation, ok := item[method].(map[string]any); ok && operation["responses"] == nil {
				v.fail(a, "each operation of the OpenAPI document has responses, without which it is none", fmt.Sprintf("%s of %s has none", method, path))
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

// references are all in a part of an OpenAPI document.
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

// describes says whether schemas describe a Llama. References begin with a prefix.
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

// schemaOf is that of a kind, or nil.
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

// metadataTypes are those of fields of metadata, for documents that describe them.
var metadataTypes = map[string]string{
	"name": "string", "labels{}": "string", "annotations{}": "string", "finalizers": "array", "finalizers[]": "string",
	"ownerReferences": "array", "ownerReferences[].uid": "string", "generation": "integer", "creationTimestamp": "string",
}

// fieldTypes fails the check unless the fields of the kinds have their types: of each kind those of its metadata that are described, and
// of a FarmPod, if there are any, its containers.
func (v visit) fieldTypes(a answer, schemas map[string]any, prefix string) {
	v.t.Helper()
	kinds := []string{"Llama"}
	if slices.ContainsFunc(resourcesIn(v.send(v.ctx, http.MethodGet, root, nil)), func(r map[string]any) bool { return textOf(r, "kind") == "FarmPod" }) {
		kinds = append(kinds, "FarmPod")
	}
	for _, kind := range kinds {
		described := schemaOf(schemas, kind)
		if described == nil {
			v.fail(a, a.path+" describes each kind of discovery", fmt.Sprintf("none of %d schemas has the x-kubernetes-group-version-kind of %s", len(schemas), kind))
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
	for field, want := range map[string]string{"containers": "array", "containers[].name": "string", "containers[].image": "string"} {
		if kind := typeAt(schemas, prefix, spec, field); kind != want {
			v.fail(a, fmt.Sprintf("in %s the type of spec.%s of a FarmPod is %s, so that kubectl explain farmpods.spec.containers works", a.path, field, want), fmt.Sprintf("it is %q", kind))
		}
	}
}

// typeAt is the type of a field, as "containers[].name" or "labels{}". It is empty if the first field is not described.
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

// resolve is a property's schema, if need be the one that it refers to.
func resolve(schemas map[string]any, prefix string, object map[string]any, property string) map[string]any {
	found, _, _ := unstructured.NestedMap(object, "properties", property)
	return referred(schemas, prefix, found)
}

// referred is a schema, if need be the one that it refers to.
func referred(schemas map[string]any, prefix string, found map[string]any) map[string]any {
	reference := textOf(found, "$ref")
	if all, _, _ := unstructured.NestedSlice(found, "allOf"); len(all) == 1 { // how a reference has a description beside it
		one, _ := all[0].(map[string]any)
		reference = textOf(one, "$ref")
	}
	if referred, ok := schemas[strings.TrimPrefix(reference, prefix)].(map[string]any); ok && reference != "" {
		return referred
	}
	return found
}
