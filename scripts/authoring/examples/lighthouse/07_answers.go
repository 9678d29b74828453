// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lighthouse

import (
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//lab:begin answers

// groupVersion is in the URL, in discovery and in each object. It has to be the same everywhere.
const groupVersion = "sea.example.com/v1"

// Handler serves the discovery document of the group version, and answers every other path with a Status.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/"+groupVersion, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: groupVersion,
			APIResources: []metav1.APIResource{{
				Name: "lighthouses", SingularName: "lighthouse", Kind: "Lighthouse", Namespaced: true,
				Verbs: metav1.Verbs{"get", "list"},
			}},
		})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
			Message: "the server could not find the requested resource",
		})
	})
	return mux
}

// answer writes one JSON document. The header comes first: clients choose their decoder
// by it.
func answer(w http.ResponseWriter, code int, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		http.Error(w, "encoding the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // An error means that the client is gone.
}

//lab:end
