// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

func (s *Server) get(w http.ResponseWriter, r *request) {
	object, err := r.resource.Reader.Get(r.Context(), r.namespace, r.name)
	s.answer(w, r, http.StatusOK, object, err)
}

func (s *Server) list(w http.ResponseWriter, r *request) {
	options, err := r.listOptions()
	if err != nil {
		writeError(w, err)
		return
	}
	list, err := r.resource.Reader.List(r.Context(), r.namespace, options)
	s.answer(w, r, http.StatusOK, list, err)
}

// answer writes an object in the form that the client wants, or the error.
func (s *Server) answer(w http.ResponseWriter, r *request, code int, object runtime.Object, err error) {
	if err != nil {
		writeError(w, err)
		return
	}
	shaped, err := r.shape(object)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, code, shaped)
}
