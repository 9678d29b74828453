// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/services"
	"lva.io/operators/scripts/services/freezer"
)

// A service gets another port if another program uses its usual port.
func TestServiceWithATakenPortGetsAnotherOne(t *testing.T) {
	t.Parallel()
	usual := services.Named([]string{freezer.Service})[0]
	taken, err := net.Listen("tcp", usual.Address)
	switch {
	case err == nil:
		defer taken.Close()
	case !errors.Is(err, syscall.EADDRINUSE):
		t.Fatal(err)
	}
	environment, end, err := serveServices(&manifest.Lab{Services: []string{freezer.Service}}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(environment) != 1 {
		t.Fatalf("got environment %q", environment)
	}
	url, ok := strings.CutPrefix(environment[0], usual.Variable+"=")
	if !ok || strings.HasSuffix(url, usual.Address) {
		t.Errorf("got environment %q", environment)
	}
	response, err := http.Get(url + usual.OverviewPath)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("got status %s, body %s, error = %v", response.Status, body, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if response, err := http.Get(url + usual.OverviewPath); err == nil {
		response.Body.Close()
		t.Errorf("the service still answers after its end: %s", response.Status)
	}
}

func TestOperatorWithoutALabHasNoServices(t *testing.T) {
	t.Parallel()
	environment, end, err := serveServices(nil, t.TempDir())
	if err != nil || len(environment) > 0 {
		t.Fatalf("got environment %q, error = %v, want none", environment, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}
