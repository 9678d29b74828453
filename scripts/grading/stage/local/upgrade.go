// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

// Upgradable returns false in a shared cluster, because that cluster can't reach this machine after the run.
func (o *operator) Upgradable() bool { return !o.target.Shared }

// Upgrade applies the definitions with all their versions, between which the operator on this machine converts.
func (o *operator) Upgrade(ctx context.Context) error {
	var definitions []*unstructured.Unstructured
	for _, definition := range o.Manifests.AllVersions() {
		definitions = append(definitions, o.Manifests.Converted(definition, submission.AccountNamespace, o.ca.PEM))
	}
	return o.target.Upgrade(ctx, definitions)
}

var _ stage.Upgrader = (*operator)(nil)
