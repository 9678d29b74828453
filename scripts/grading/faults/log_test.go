// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An operator chooses the paths of its requests, and a header may have a megabyte.
func TestEntriesHaveShortTexts(t *testing.T) {
	t.Parallel()
	r := newRecord()
	long := strings.Repeat("ü", 1<<20)
	asked := parseHTTP("freezer", httptest.NewRequest(http.MethodPost, "/v1/movements/"+long, nil))
	entry := r.add(asked.entry)
	r.update(entry, func(e *Entry) { e.Message = long })
	got := r.all()[0]
	want := strings.Repeat("ü", textLimit/2) + "…"
	if got.Resource != "movements" || got.Name != want || got.Message != want {
		t.Errorf("the entry is %.3000s, want texts of %d bytes", got, textLimit)
	}
}
