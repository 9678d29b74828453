// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cloud

import (
	"net/http"
	"testing"
	"time"
)

// Of a request that was never sent the API server knows nothing: it is trouble with the cloud as well.
func TestTheCloudCannotBeAsked(t *testing.T) {
	if _, err := NewClient("http://no address", time.Second).Get(t.Context(), "i-1"); !IsUnavailable(err) {
		t.Errorf("the address is none, and the error is %v", err)
	}
	_, err := do[Instance](t.Context(), NewClient("http://127.0.0.1", time.Second),
		http.MethodPost, "/v1/instances", func() {})
	if !IsUnavailable(err) {
		t.Errorf("the request can't be encoded, and the error is %v", err)
	}
}
