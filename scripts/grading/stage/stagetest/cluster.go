// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package stagetest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
)

// shared is the cluster of a package's tests. They use it one after the other, because only one router can listen at
// its egress socket.
var shared struct {
	mutex   sync.Mutex
	cluster *embedded.Cluster
}

// Cluster returns an embedded cluster that the tests of a package share. It belongs to the calling test until the test
// ends. It still contains the objects that earlier tests have created. The package's TestMain must call Main.
func Cluster(tb testing.TB) *embedded.Cluster {
	tb.Helper()
	shared.mutex.Lock()
	tb.Cleanup(shared.mutex.Unlock)
	if shared.cluster == nil {
		repo, err := checkout.Find()
		if err != nil {
			tb.Fatal(err)
		}
		if err := repo.EnsureControlPlane(tb.Context()); err != nil {
			tb.Fatal(err)
		}
		// Not the test's context: the cluster outlives it.
		if shared.cluster, err = embedded.Start(context.Background(), repo.ControlPlane); err != nil {
			tb.Fatal(err)
		}
	}
	return shared.cluster
}

// NamespacesVariable names a variable that is "required" in CI. A test that can't create namespaces fails there, and is
// skipped elsewhere.
const NamespacesVariable = "OPERATOR_LABS_NAMESPACES"

// Node returns the parts of a node for an embedded cluster. It ends a test for which no node can run.
func Node(tb testing.TB, repo *checkout.Checkout) embedded.NodeParts {
	tb.Helper()
	parts, err := repo.EnsureNode(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	if parts.Unavailable != nil {
		if os.Getenv(NamespacesVariable) == "required" {
			tb.Fatal(parts.Unavailable)
		}
		tb.Skipf("there can be no node here, see CI, which sets %s=required: %v", NamespacesVariable, parts.Unavailable)
	}
	return parts
}

// Main runs the tests, stops the cluster, and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
