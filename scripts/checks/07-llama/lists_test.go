// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func selectors() types.Feature {
	return features.New("selectors").
		Assess("by labels and fields", check.Assess(step(func(v visit) {
			v.create(ns, labelled("s-white", "color", "white", "set", "s"))
			v.create(ns, labelled("s-black", "color", "black", "set", "s"))
			v.create(ns, labelled("s-none", "set", "s"))
			v.create(otherNS, labelled("s-there", "color", "white", "set", "s"))
			for _, c := range []struct {
				namespace, query string
				want             []string
			}{
				{ns, "labelSelector=color=white", []string{"s-white"}},
				{ns, "labelSelector=set=s,color in (white,black)", []string{"s-black", "s-white"}},
				{ns, "labelSelector=set=s,!color", []string{"s-none"}},
				{ns, "labelSelector=set=s,color!=white", []string{"s-black", "s-none"}},
				{"", "labelSelector=color=white,set=s", []string{"s-there", "s-white"}},
				{ns, "labelSelector=set=s,color", []string{"s-black", "s-white"}},
				{ns, "labelSelector=set=s,color notin (white,grey)", []string{"s-black", "s-none"}},
				{ns, "labelSelector=set==s,color==black", []string{"s-black"}},
				{ns, "fieldSelector=metadata.name=s-black", []string{"s-black"}},
				{ns, "fieldSelector=metadata.name==s-black,metadata.namespace=" + ns, []string{"s-black"}},
				{ns, "fieldSelector=metadata.name=s-black,metadata.namespace=" + otherNS, []string{}},
				{ns, "labelSelector=color=white&fieldSelector=metadata.name=s-black", []string{}},
				{"", "labelSelector=set=s&fieldSelector=metadata.namespace!=" + otherNS, []string{"s-black", "s-none", "s-white"}},
				{ns, "labelSelector=set=s&fieldSelector=metadata.name!=s-black", []string{"s-none", "s-white"}},
				{"", "labelSelector=set=s&fieldSelector=metadata.namespace=" + otherNS, []string{"s-there"}},
			} {
				if c.namespace == "" && !v.listsAll() {
					continue // another check reports that
				}
				a := v.want(v.send(v.ctx, http.MethodGet, llamas(c.namespace)+"?"+escaped(c.query), nil),
					"a list with "+c.query+" answers 200", http.StatusOK)
				names := a.names()
				slices.Sort(names)
				if !slices.Equal(names, c.want) {
					v.fail(a, fmt.Sprintf("a list with %s has %v", c.query, c.want), fmt.Sprintf("it has %v", names))
				}
			}
			v.want(v.send(v.ctx, http.MethodGet, llamas(ns)+"?fieldSelector=spec.shoes%3D4", nil),
				"a field selector for a field that is not served answers 400, since a list of all would be wrong",
				http.StatusBadRequest)
			v.want(v.send(v.ctx, http.MethodGet, llamas(ns)+"?labelSelector=%3D%3D%3D", nil),
				"a label selector that is none answers 400", http.StatusBadRequest)
		}))).Feature()
}

// escaped escapes the values of a query.
func escaped(query string) string {
	var parts []string
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		parts = append(parts, name+"="+url.QueryEscape(value))
	}
	return strings.Join(parts, "&")
}

func paging() types.Feature {
	return features.New("paging").
		Assess("pages", check.Assess(step(func(v visit) {
			var want []string
			for i := range 7 {
				name := fmt.Sprintf("page-%d", i)
				v.create(ns, labelled(name, "set", "pages"))
				want = append(want, name)
			}
			var got []string
			next := ""
			for pages := 1; ; pages++ {
				a := v.want(v.send(v.ctx, http.MethodGet,
					llamas(ns)+"?limit=3&labelSelector=set%3Dpages&continue="+url.QueryEscape(next), nil),
					"a page of a list answers 200", http.StatusOK)
				if len(a.items()) > 3 {
					v.fail(a, "a page has at most as many llamas as its limit, 3", fmt.Sprintf("it has %d", len(a.items())))
				}
				got = append(got, a.names()...)
				next = textOf(a.object(), "metadata", "continue")
				if next == "" {
					break
				}
				if pages == 1 { // change the farm between two pages
					v.create(ns, labelled("page-0a", "set", "pages"))
				}
				if pages > len(want) {
					v.fail(a, "the last page has no continue", fmt.Sprintf("there is one after %d pages", pages))
				}
			}
			got = slices.DeleteFunc(got, func(name string) bool { return name == "page-0a" }) // a list may have it or not
			if !slices.Equal(slices.Sorted(slices.Values(got)), want) {
				v.Fail(v.t, fmt.Sprintf("the pages have %v, each once", want), fmt.Sprintf("they have %v", got))
			}
			v.want(v.send(v.ctx, http.MethodGet, llamas(ns)+"?limit=3&continue=nonsense", nil),
				"a continue that is none answers 400 or 410", http.StatusBadRequest, http.StatusGone)
		}))).
		Assess("of each form, and of all namespaces", check.Assess(step(func(v visit) {
			// The order differs if the name of a namespace, or of a llama, is followed by a separator: ns is a prefix of
			// otherNS.
			var want, wantNS []string
			for _, name := range []string{"b", "b-1", "b.1", "b1", "a-z", "c"} {
				v.create(ns, labelled(name, "set", "forms"))
				wantNS = append(wantNS, ns+"/"+name)
			}
			want = append(want, wantNS...)
			for _, name := range []string{"a", "b", "b-1", "z"} {
				v.create(otherNS, labelled(name, "set", "forms"))
				want = append(want, otherNS+"/"+name)
			}
			slices.Sort(want)
			slices.Sort(wantNS)
			all, send := v.listsAll(), v.directly()
			for _, form := range []struct{ what, accept string }{
				{"a list", "application/json"}, {"a Table", acceptTable}, {"a PartialObjectMetadataList", acceptMetadata},
			} {
				for _, limit := range []int{1, 4} {
					v.pages(send, ns, form.what, form.accept, limit, wantNS)
					if all {
						v.pages(send, "", form.what, form.accept, limit, want)
					}
				}
			}
		}))).
		Assess("of one state", check.Assess(step(func(v visit) {
			for i := range 5 {
				v.create(ns, labelled(fmt.Sprintf("s-%d", i), "set", "state"))
			}
			const path = "?limit=2&labelSelector=set%3Dstate"
			first := v.want(v.send(v.ctx, http.MethodGet, llamas(ns)+path, nil), "a page of a list answers 200", http.StatusOK)
			v.create(ns, labelled("s-2a", "set", "state"))
			v.drop(ns, "s-3")
			v.change(ns, "s-4", `{"metadata":{"labels":{"set":"other"}}}`)
			names := first.names()
			for next, a := textOf(first.object(), "metadata", "continue"), first; next != ""; next = textOf(a.object(),
				"metadata", "continue") {
				a = v.want(v.send(v.ctx, http.MethodGet, llamas(ns)+path+"&continue="+url.QueryEscape(next), nil),
					"a page of a list answers 200", http.StatusOK)
				if versionOf(a.object()) != versionOf(first.object()) {
					v.fail(a, "all pages of a list have the same resourceVersion",
						fmt.Sprintf("it is %q, and that of the first page %q", versionOf(a.object()), versionOf(first.object())))
				}
				if names = append(names, a.names()...); len(names) > 20 {
					break
				}
			}
			if want := []string{"s-0", "s-1", "s-2", "s-3", "s-4"}; !slices.Equal(slices.Sorted(slices.Values(names)), want) {
				v.Fail(v.t, fmt.Sprintf("all pages show the state at the resourceVersion of the first one: %v, although meanwhile "+
					"s-2a was created, s-3 deleted, and s-4 is no longer selected", want),
					fmt.Sprintf("they have %v", names))
			}
		}))).Feature()
}

// acceptMetadata requests only the metadata of a list.
const acceptMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// pages fails the check unless the pages of a list, in the form that a client accepts, have each of these llamas once.
func (v visit) pages(
	send func(method, path string, body any, headers ...string) answer,
	namespace, what, accept string, limit int, want []string,
) {
	v.t.Helper()
	var got []string
	next := ""
	for range len(want) + 1 {
		path := fmt.Sprintf("%s?limit=%d&labelSelector=set%%3Dforms&continue=%s",
			llamas(namespace), limit, url.QueryEscape(next))
		a := v.want(send(http.MethodGet, path, nil, "Accept", accept), "a page of "+what+" answers 200", http.StatusOK)
		items := a.items()
		rows, _, _ := unstructured.NestedSlice(a.object(), "rows")
		for _, row := range rows {
			row, _ := row.(map[string]any)
			object, _ := row["object"].(map[string]any)
			items = append(items, object)
		}
		if len(items) > limit {
			v.fail(a, fmt.Sprintf("a page of %s has at most as many llamas as its limit, %d", what, limit),
				fmt.Sprintf("it has %d", len(items)))
		}
		for _, item := range items {
			got = append(got, keyOf(item))
		}
		if next = textOf(a.object(), "metadata", "continue"); next == "" {
			break
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		scope := "the namespace " + namespace
		if namespace == "" {
			scope = "all namespaces"
		}
		v.Fail(v.t,
			fmt.Sprintf("the pages of %s of %s, with limit=%d and continue, have %v, each once", what, scope, limit, want),
			fmt.Sprintf("they have %v", got))
	}
}
