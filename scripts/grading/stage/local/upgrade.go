// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

// Upgradable is false in a cluster of others, which has no way back to this machine once the run is over.
func (o *operator) Upgradable() bool { return !o.into.Shared }

// Upgrade applies the definitions with all their versions, between which the operator on this machine converts.
func (o *operator) Upgrade(ctx context.Context) error {
	var definitions []*unstructured.Unstructured
	for _, definition := range o.Manifests.Whole() {
		definitions = append(definitions, o.Manifests.Converted(definition, submission.AccountNamespace, o.ca.PEM))
	}
	return o.into.Upgrade(ctx, definitions)
}

var _ stage.Upgrader = (*operator)(nil)
