// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/services"
)

// The services that labs name exist.
func TestServicesOfLabs(t *testing.T) {
	t.Parallel()
	list, err := manifest.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, lab := range list.Labs {
		found := services.Named(lab.Services)
		if len(found) != len(lab.Services) {
			t.Errorf("lab %s has the services %q, but %d exist", lab.Name, lab.Services, len(found))
		}
		for _, service := range found {
			used[service.Name] = true
		}
	}
	if len(used) != len(services.All()) {
		t.Errorf("%d services exist, but labs use %v", len(services.All()), used)
	}
}

// The path that a person opens first answers, both of a graded service and of one that saves its state.
func TestServicesServeLookPath(t *testing.T) {
	t.Parallel()
	for _, service := range services.All() {
		forOperator, forChecks := service.New()
		kept, err := service.Open(filepath.Join(t.TempDir(), "state.json"))
		if err != nil {
			t.Fatal(err)
		}
		if forChecks == nil {
			t.Errorf("the %s has no handler for the checks", service.Name)
		}
		for _, handler := range []http.Handler{forOperator, kept} {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, service.OverviewPath, nil))
			if answer.Code != http.StatusOK {
				t.Errorf("the %s: GET %s: status = %d", service.Name, service.OverviewPath, answer.Code)
			}
		}
	}
}
