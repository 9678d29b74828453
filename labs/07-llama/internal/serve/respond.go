// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// form is in which form a client wants an answer: as it is (""), or as "Table", "PartialObjectMetadata" or
// "PartialObjectMetadataList", which every kind can be turned into.
type form string

// negotiate reads the header Accept and takes the first form in it that this server has. The server has JSON only, and
// that is enough: clients that prefer protobuf accept JSON, too.
func negotiate(accept string) (form, error) {
	if strings.TrimSpace(accept) == "" {
		return "", nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		kind, parameters, err := mime.ParseMediaType(clause)
		if err != nil || (kind != "application/json" && kind != "application/*" && kind != "*/*") {
			continue
		}
		if parameters["as"] == "" {
			return "", nil
		}
		if parameters["g"] != metav1.GroupName || parameters["v"] != "v1" {
			continue
		}
		// TODO(lab): a6. kubectl would rather have a Table, and the garbage collector metadata alone.
	}
	return "", notAcceptable("only the following media types are accepted: application/json")
}

func notAcceptable(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: message,
	}}
}

// writeJSON answers with an object.
func writeJSON(w http.ResponseWriter, code int, object any) {
	content, err := json.Marshal(object)
	if err != nil {
		slog.Error("An answer cannot be written as JSON", "error", err)
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	writeContent(w, code, content)
}

// writeContent answers with JSON. Without the content type a client does not know how to decode the answer.
func writeContent(w http.ResponseWriter, code int, content []byte) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(code)
	// A client that has gone needs no answer.
	_, _ = w.Write(append(content, '\n'))
}

// writeError answers with a Status, the object that Kubernetes has for errors. Clients decide by its reason.
func writeError(w http.ResponseWriter, err error) {
	status := statusOf(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	writeJSON(w, int(status.Code), status)
}

// statusOf makes a Status of any error. An error without an HTTP code is our own fault: 500.
func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		slog.Error("A request failed", "error", err)
		known = apierrors.NewInternalError(fmt.Errorf("%w", err))
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}
