// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func discovered() types.Feature {
	return features.New("discovery").
		Assess("the API server finds the group version", check.Assess(step(func(v visit) {
			const expected = "the API server reaches the group version: " +
				"GET " + root + " answers 200, and the APIService is Available"
			v.hasLlamas(v.reaches(root, expected, func(a answer) (string, bool) {
				got, available := v.condition()
				return fmt.Sprintf("GET %s answers %s, and %s", root, a.summary(), got), available && a.code == http.StatusOK
			}))
		}))).
		Assess("the server's own documents", check.Assess(step(func(v visit) {
			p, ok := v.proxy()
			if !ok {
				return // hidden behind the API server, which answers these paths itself
			}
			a := v.want(p.send(v.ctx, http.MethodGet, "/apis/"+group, nil, admin...),
				"the server answers /apis/"+group+" with an APIGroup", http.StatusOK)
			if object := a.object(); textOf(object, "kind") != "APIGroup" || textOf(object, "name") != group {
				v.fail(a, "/apis/"+group+" is an APIGroup with the group's name",
					fmt.Sprintf("it has the kind %q and the name %q", textOf(object, "kind"), textOf(object, "name")))
			}
			v.hasVersion(a, a.object())
			a = v.want(p.send(v.ctx, http.MethodGet, "/apis", nil, admin...), "the server answers /apis with an APIGroupList",
				http.StatusOK)
			if kind := textOf(a.object(), "kind"); kind != "APIGroupList" {
				v.fail(a, "/apis is an APIGroupList for a client that does not ask for aggregated discovery",
					fmt.Sprintf("its kind is %q", kind))
			}
			groups, _, _ := unstructured.NestedSlice(a.object(), "groups")
			for _, found := range groups {
				if found, _ := found.(map[string]any); textOf(found, "name") == group {
					v.hasVersion(a, found)
					return
				}
			}
			v.fail(a, "the list of groups at /apis has "+group, fmt.Sprintf("it has %d other groups", len(groups)))
		}))).Feature()
}

// hasVersion fails the check unless a group of discovery has the version, and prefers it.
func (v visit) hasVersion(a answer, found map[string]any) {
	v.t.Helper()
	versions, _, _ := unstructured.NestedSlice(found, "versions")
	for _, version := range versions {
		version, _ := version.(map[string]any)
		if textOf(version, "groupVersion") == groupVersion && textOf(version, "version") == "v1alpha" &&
			textOf(found, "preferredVersion", "groupVersion") == groupVersion {
			return
		}
	}
	v.fail(a, fmt.Sprintf("in GET %s the group has the version v1alpha, "+
		"with the groupVersion %s, as its preferred version", a.path, groupVersion),
		fmt.Sprintf("its versions are %v, and the preferred one is %v", versions, found["preferredVersion"]))
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
		if textOf(resource, "kind") != "Llama" || !namespaced ||
			!slices.Contains(verbs, "get") || !slices.Contains(verbs, "list") {
			v.fail(a, expected, fmt.Sprintf("llamas have the kind %q, namespaced is %t, and the verbs are %v",
				textOf(resource, "kind"), namespaced, verbs))
		}
		return
	}
	v.fail(a, expected, fmt.Sprintf("there are no llamas among its %d resources", len(found)))
}

// resourcesIn returns the resources of an APIResourceList.
func resourcesIn(a answer) (all []map[string]any) {
	found, _, _ := unstructured.NestedSlice(a.object(), "resources")
	for _, resource := range found {
		if resource, ok := resource.(map[string]any); ok {
			all = append(all, resource)
		}
	}
	return all
}

// described fails the check unless a resource of discovery, in either form, has these names and verbs. Nil allows any
// verbs.
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
	// One for each form, too.
	if namespaced, _, _ := unstructured.NestedBool(resource, "namespaced"); !namespaced &&
		textOf(resource, "scope") != "Namespaced" {
		v.fail(a, "in discovery "+plural+" are namespaced", "they are not")
	}
	if got := textOf(resource, "kind") + textOf(resource, "responseKind", "kind"); got != kind {
		v.fail(a, fmt.Sprintf("in discovery %s have the kind %s", plural, kind), fmt.Sprintf("it is %q", got))
	}
}

// bystanders are resources of other servers, which the whole cluster needs.
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
			// Some clients request each group, and store the answers by their group version.
			client.UseLegacyDiscovery = true
			all, err := restmapper.GetAPIGroupResources(client)
			v.OK(v.t, "asking each group for its resources", err)
			mapper := restmapper.NewDiscoveryRESTMapper(all)
			a := v.send(v.ctx, http.MethodGet, root, nil)
			for _, other := range bystanders {
				if _, err := mapper.ResourceFor(other); err != nil {
					v.fail(a, "a client that asks each group for its resources finds those of the others, as "+other.Resource,
						fmt.Sprintf("it finds no %s any more: GET %s answers the groupVersion %q, "+
							"and that list has replaced the right one", other.Resource, root, textOf(a.object(), "groupVersion")))
				}
			}
			if got := textOf(a.object(), "groupVersion"); got != groupVersion {
				v.fail(a, "GET "+root+" answers the groupVersion "+groupVersion, fmt.Sprintf("it answers the groupVersion %q", got))
			}
		}))).
		Assess("objects name their group version", check.Assess(step(func(v visit) {
			for _, path := range []string{llamas(carla.namespace), llama(carla.namespace, carla.name)} {
				a := v.send(v.ctx, http.MethodGet, path, nil)
				if a.code != http.StatusOK {
					continue // other checks report that
				}
				if got := textOf(a.object(), "apiVersion"); got != groupVersion {
					v.fail(a, "GET "+path+" answers the apiVersion "+groupVersion, fmt.Sprintf("it answers the apiVersion %q", got))
				}
			}
		}))).Feature()
}

// acceptDiscovery asks for aggregated discovery, as the API server's aggregator does.
const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

func aggregatedDiscovery() types.Feature {
	return features.New("aggregated discovery").
		Assess("one answer has all", check.Assess(step(func(v visit) {
			a := v.send(v.ctx, http.MethodGet, "/apis", nil, "Accept", acceptDiscovery)
			if p, ok := v.proxy(); ok {
				a = p.send(v.ctx, http.MethodGet, "/apis", nil, append([]string{"Accept", acceptDiscovery}, admin...)...)
			}
			v.want(a, "/apis answers aggregated discovery", http.StatusOK)
			const expected = "to a client that asks for it, /apis answers an APIGroupDiscoveryList, " +
				"and says so in its Content-Type (as=APIGroupDiscoveryList)"
			_, parameters, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
			if kind := textOf(a.object(), "kind"); kind != "APIGroupDiscoveryList" ||
				parameters["as"] != "APIGroupDiscoveryList" {
				v.fail(a, expected,
					fmt.Sprintf("the answer's kind is %q, and its Content-Type %q", kind, a.header.Get("Content-Type")))
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
							textOf(resource, "responseKind", "kind") == "Llama" && textOf(resource, "scope") == "Namespaced" &&
							slices.Contains(verbs, "list") {
							v.described(a, resource, "llamas", "Llama", "llama", "ll", nil)
							v.sameAs(older, a, resources)
							return
						}
					}
				}
			}
			v.fail(a, "aggregated discovery has llamas in the version v1alpha of "+group+", "+
				"with responseKind, scope Namespaced and verbs", "it has not")
		}))).Feature()
}

// sameAs fails the check unless the resources of aggregated discovery are those of the older document, each with the
// same names and verbs.
func (v visit) sameAs(older, a answer, resources []any) {
	v.t.Helper()
	for _, was := range resourcesIn(older) {
		name := textOf(was, "name")
		if name == "llamas" {
			v.described(older, was, "llamas", "Llama", "llama", "ll", nil)
		}
		if strings.Contains(name, "/") {
			continue // in the newer form, subresources are part of their resource
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
			v.fail(a, fmt.Sprintf("aggregated discovery has the short names of GET %s: %v for %s", root, shorts, name),
				fmt.Sprintf("it has %v", shown))
		}
		has, _, _ := unstructured.NestedStringSlice(is, "verbs")
		namespaced, _, _ := unstructured.NestedBool(was, "namespaced")
		if kind, want := textOf(is, "responseKind", "kind"), textOf(was, "kind"); kind != want ||
			(textOf(is, "scope") == "Namespaced") != namespaced {
			v.fail(a,
				fmt.Sprintf("aggregated discovery has the kind and the scope of GET %s: %s, namespaced is %t for %s",
					root, want, namespaced, name),
				fmt.Sprintf("the kind is %q, and the scope %q", kind, textOf(is, "scope")))
		}
		if slices.Sort(has); !slices.Equal(has, verbs) {
			v.fail(a, fmt.Sprintf("aggregated discovery has the verbs of GET %s: %v for %s", root, verbs, name),
				fmt.Sprintf("it has %v", has))
		}
	}
}
