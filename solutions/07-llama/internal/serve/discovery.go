// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"mime"
	"net/http"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addDiscovery serves the discovery documents. A client reads them before anything else. The API server reads them,
// too, and merges them with those of all other groups, so the whole cluster sees an error in them.
func (s *Server) addDiscovery(mux *http.ServeMux) {
	//lab:begin discovery
	group := s.apiGroup()
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, r *http.Request) {
		if wantsAggregated(r.Header.Get("Accept")) {
			s.writeAggregated(w)
			return
		}
		writeJSON(w, http.StatusOK, metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group},
		})
	})
	mux.HandleFunc("GET /apis/"+s.group.Group, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, group)
	})
	mux.HandleFunc("GET /apis/"+s.group.String(), func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.resourceList())
	})
	//lab:else
	// // TODO(lab): a1. Which groups are there (/apis), which versions has ours (/apis/GROUP), which resources has the
	// // version?
	//lab:end
}

func (s *Server) apiGroup() metav1.APIGroup {
	//lab:begin group
	version := metav1.GroupVersionForDiscovery{GroupVersion: s.group.String(), Version: s.group.Version}
	return metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name:     s.group.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	//lab:else
	// // TODO(lab): a1. Kind and apiVersion, the name, and the only version, which is preferred.
	// return metav1.APIGroup{}
	//lab:end
}

func (s *Server) resourceList() metav1.APIResourceList {
	//lab:begin resource-list
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		// A client files all these resources under this name, whatever path it asked: with the name of another group
		// here it looks for that group's kinds at our paths.
		GroupVersion: s.group.String(),
		APIResources: []metav1.APIResource{},
	}
	for _, r := range s.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.Plural, SingularName: r.Singular, Namespaced: true, Kind: r.Kind, Verbs: r.verbs(), ShortNames: r.ShortNames,
		})
	}
	return list
	//lab:else
	// // TODO(lab): a1. Each of s.resources, and the group version under which clients file them.
	// return metav1.APIResourceList{}
	//lab:end
}

// wantsAggregated reports whether the client wants all groups, versions and resources in one document, which saves it
// two requests for each group. The API server does.
func wantsAggregated(accept string) bool {
	for clause := range strings.SplitSeq(accept, ",") {
		kind, parameters, err := mime.ParseMediaType(clause)
		if err != nil || kind != "application/json" {
			continue
		}
		if parameters["as"] == "" {
			return false // it would rather have the old way
		}
		if parameters["g"] == apidiscoveryv2.GroupName && parameters["v"] == "v2" &&
			parameters["as"] == "APIGroupDiscoveryList" {
			return true
		}
	}
	return false
}

func (s *Server) writeAggregated(w http.ResponseWriter) {
	//lab:begin aggregated
	version := apidiscoveryv2.APIVersionDiscovery{
		Version: s.group.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
	}
	for _, r := range s.resources {
		version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{
			Resource:         r.Plural,
			ResponseKind:     &metav1.GroupVersionKind{Group: s.group.Group, Version: s.group.Version, Kind: r.Kind},
			Scope:            apidiscoveryv2.ScopeNamespace,
			SingularResource: r.Singular,
			Verbs:            r.verbs(),
			ShortNames:       r.ShortNames,
		})
	}
	list := apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items: []apidiscoveryv2.APIGroupDiscovery{{
			ObjectMeta: metav1.ObjectMeta{Name: s.group.Group},
			Versions:   []apidiscoveryv2.APIVersionDiscovery{version},
		}},
	}
	w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	writeJSON(w, http.StatusOK, list)
	//lab:else
	// // TODO(lab): a5. An apidiscoveryv2.APIGroupDiscoveryList, with a content type that says so.
	// http.Error(w, "not there yet", http.StatusNotImplemented)
	//lab:end
}
