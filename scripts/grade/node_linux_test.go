// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"os"
	"testing"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	clusternode "lva.io/operators/clusters/node"
	"lva.io/operators/scripts/stage/node"
)

// Whether an operator is a process or a Pod of the embedded cluster's node is all the same to the checks: it is restarted, killed at its
// writes, and asked as a webhook.
func TestAnOperatorIsAPodOfTheNode(t *testing.T) {
	t.Parallel()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := have.EnsureNode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := clusternode.Probe(t.Context(), parts.Programs); err != nil {
		if os.Getenv(namespacesVariable) == "required" {
			t.Fatal(err)
		}
		t.Skipf("this machine can have no node, see CI, which sets %s=required: %v", namespacesVariable, err)
	}
	for _, lab := range []string{"2", "4"} {
		t.Run(lab, func(t *testing.T) {
			t.Parallel()
			listed, err := have.Labs.Lab(lab)
			if err != nil {
				t.Fatal(err)
			}
			o := options(t, lab, have.SolutionDir(listed))
			o.System = "linux"
			o.Start = node.Start(func(ctx context.Context) (*embedded.Cluster, error) {
				return embedded.StartWithNode(ctx, have.ControlPlane, parts)
			}, images.StoreOf(have.Root), have.ControlPlane.Path)
			wantFull(t, grade(t.Context(), t, o))
		})
	}
}
