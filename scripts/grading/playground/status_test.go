// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"errors"
	"testing"

	"lva.io/operators/clusters/embedded"
)

// `make status` names the program that has ended. The API server's answer is only a consequence.
func TestUnusable(t *testing.T) {
	t.Parallel()
	silent := errors.New("it is not ready: its checks of etcd fail")
	for _, test := range []struct {
		name     string
		programs map[string]bool
		ready    error
		want     string
	}{
		{"it can", map[string]bool{"etcd": true, "kube-apiserver": true}, nil, ""},
		{
			"etcd has ended",
			map[string]bool{"etcd": false, "kube-apiserver": true},
			silent,
			"the playground can't be used, because etcd ended: `make up` starts it again",
		},
		{
			"all have ended",
			map[string]bool{"kube-apiserver": false, "etcd": false},
			errors.New("connection refused"),
			"the playground can't be used, because etcd and kube-apiserver ended: `make up` starts it again",
		},
		{
			"all run",
			map[string]bool{"etcd": true},
			silent,
			"the playground's API server can't be used: it is not ready: its checks of etcd fail: `make up` starts it again",
		},
	} {
		got := ""
		if err := Unusable(&embedded.PlaygroundStatus{Programs: test.programs, Ready: test.ready}); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: want %q, got %q", test.name, test.want, got)
		}
	}
}
