// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"testing"

	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/kind"
)

func TestServerForStudents(t *testing.T) {
	t.Parallel()
	config := &rest.Config{Host: "https://127.0.0.1:6443"}
	addresses := []string{"192.0.2.7", "198.51.100.3"}
	for _, test := range []struct {
		name      string
		ports     []kind.Port
		addresses []string
		want      string
	}{
		{
			"the API server listens on all addresses",
			[]kind.Port{{Address: "0.0.0.0", Number: 6443}},
			addresses, "https://192.0.2.7:6443",
		},
		{
			"at one address",
			[]kind.Port{{Address: "198.51.100.3", Number: 6443}},
			addresses, "https://198.51.100.3:6443",
		},
		{"on localhost only", []kind.Port{{Address: "127.0.0.1", Number: 6443}}, addresses, ""},
		{"no published port", nil, addresses, ""},
		{"another port is open", []kind.Port{{Address: "0.0.0.0", Number: 80}}, addresses, ""},
		{"the machine has no address", []kind.Port{{Address: "0.0.0.0", Number: 6443}}, nil, ""},
	} {
		if got := serverFor(config, test.ports, test.addresses); got != test.want {
			t.Errorf("%s: serverFor() = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestParseServer(t *testing.T) {
	t.Parallel()
	for server, good := range map[string]bool{
		"https://k8s.example.edu:6443": true, "https://192.0.2.7": true,
		"k8s.example.edu:6443": false, "http://192.0.2.7:6443": false, "https://": false,
	} {
		if _, err := parseServer(server); (err == nil) != good {
			t.Errorf("parseServer(%s): error = %v", server, err)
		}
	}
}
