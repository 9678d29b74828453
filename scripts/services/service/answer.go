// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package service

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Answer writes a value as a JSON response.
func Answer(w http.ResponseWriter, code int, value any) { write(w, code, "application/json", value) }

// Problem is the body of every error response (RFC 9457, media type application/problem+json).
type Problem struct {
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Status int    `json:"status"`
}

// Refuse responds with a Problem.
func Refuse(w http.ResponseWriter, code int, detail string) {
	write(w, code, "application/problem+json", Problem{Title: http.StatusText(code), Detail: detail, Status: code})
}

func write(w http.ResponseWriter, code int, mediaType string, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // no type that a service answers with can fail
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // an error means that the caller has disconnected
}
