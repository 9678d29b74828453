// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"context"
	"errors"
	"io"
	"testing"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
)

// A missing playground is reported before anything is downloaded or built.
func TestStoppedPlaygroundFailsBeforeTheBuild(t *testing.T) {
	t.Parallel()
	operator := &Operator{
		Checkout: &checkout.Checkout{Root: t.TempDir()}, Dir: t.TempDir(), Out: io.Discard, Err: io.Discard,
		Fetch: func(context.Context, string, string) error {
			t.Error("Fetch was called")
			return nil
		},
	}
	for name, do := range map[string]func() error{
		"load":     func() error { return operator.LoadImage(t.Context(), "test/operator:v1", Target{}) },
		"deploy":   func() error { return operator.Deploy(t.Context(), "test/operator:v1", Target{}) },
		"undeploy": func() error { return operator.Undeploy(t.Context(), Target{}) },
	} {
		if err := do(); !errors.Is(err, embedded.ErrDown) {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}

// kubectl uses the kubeconfig that is found for a kind cluster, or fails with the reason why there is none.
func TestKindTargetUsesTheFoundKubeconfig(t *testing.T) {
	t.Parallel()
	none := errors.New("it was not created by this checkout")
	for _, want := range []error{nil, none} {
		target := Target{Kind: "labs", Find: func(context.Context) (string, error) { return "/tmp/kind.kubeconfig", want }}
		file, err := target.Kubeconfig(t.Context(), &checkout.Checkout{Root: t.TempDir()})
		if !errors.Is(err, want) || file != "/tmp/kind.kubeconfig" {
			t.Errorf("Kubeconfig() = %q, error = %v", file, err)
		}
	}
}
