// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/limited"
)

// TestScrapeLimitsBody checks that an endless answer of a submission does not fill the memory of the checks, and that
// they report what is wrong with it.
func TestScrapeLimitsBody(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := []byte(strings.Repeat("x", 1<<20))
		for i, err := 0, error(nil); err == nil && i < 64; i++ { // or until the client disconnects
			_, err = w.Write(text)
		}
	}))
	defer server.Close()
	_, body, err := scrape(t.Context(), server.Listener.Addr().String(), "")
	if !errors.As(err, new(*limited.LongError)) || len(body) > metricsLimit {
		t.Errorf("%d bytes were kept: %v", len(body), err)
	}
}
