// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
)

// Addons returns the add-ons that the playground has. If none was ever installed, it does not contact the API server.
func Addons(ctx context.Context, repo *checkout.Checkout) ([]known.State, error) {
	installer := repo.Installer()
	if _, err := os.Stat(installer.Program); err != nil {
		return nil, nil //nolint:nilerr // the installer was never built
	}
	states, err := installer.States(ctx, repo.Playground().Kubeconfig(), known.Names())
	if err != nil {
		return nil, fmt.Errorf("listing the add-ons: %w", err)
	}
	return slices.DeleteFunc(states, func(state known.State) bool { return state.Installed == "" }), nil
}

// Unusable returns the reason why the playground can't be used, or nil if it can. It prefers a program that has ended
// over the API server's answer, because that explains more.
func Unusable(status *embedded.PlaygroundStatus) error {
	ended := slices.DeleteFunc(slices.Sorted(maps.Keys(status.Programs)), func(name string) bool {
		return status.Programs[name]
	})
	switch {
	case status.Ready == nil:
		return nil
	case len(ended) > 0:
		return fmt.Errorf("the playground can't be used, because %s ended: `make up` starts it again",
			english.WordSeries(ended, "and"))
	}
	return fmt.Errorf("the playground's API server can't be used: %w: `make up` starts it again", status.Ready)
}
