// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"encoding/json"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

func (s *Server) get(w http.ResponseWriter, r *request) {
	object, err := r.resource.Reader.Get(r.Context(), r.namespace, r.name)
	s.answer(w, r, http.StatusOK, object, err)
}

func (s *Server) list(w http.ResponseWriter, r *request) {
	content, err := r.makeList()
	if err == nil {
		err = r.hold(len(content))
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeContent(w, http.StatusOK, content)
}

// answer writes an object in the form that the client wants, or the error. Only a read can be refused because its
// answer is too large: a write has happened, and has held the bytes of its body.
func (s *Server) answer(w http.ResponseWriter, r *request, code int, object runtime.Object, err error) {
	if err != nil {
		writeError(w, err)
		return
	}
	content, err := r.encode(object)
	if err == nil && r.Method == http.MethodGet {
		err = r.hold(len(content))
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeContent(w, code, content)
}

// encode returns an object as JSON, in the form that the client wants.
func (r *request) encode(object runtime.Object) ([]byte, error) {
	shaped, err := r.shape(object)
	if err != nil {
		return nil, err
	}
	return json.Marshal(shaped)
}
