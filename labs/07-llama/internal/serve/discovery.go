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
	// TODO(lab): a1. Which groups are there (/apis), which versions has ours (/apis/GROUP), which resources has the
	// version?
}

func (s *Server) apiGroup() metav1.APIGroup {
	// TODO(lab): a1. Kind and apiVersion, the name, and the only version, which is preferred.
	return metav1.APIGroup{}
}

func (s *Server) resourceList() metav1.APIResourceList {
	// TODO(lab): a1. Each of s.resources, and the group version under which clients file them.
	return metav1.APIResourceList{}
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
	// TODO(lab): a5. An apidiscoveryv2.APIGroupDiscoveryList, with a content type that says so.
	http.Error(w, "not there yet", http.StatusNotImplemented)
}
