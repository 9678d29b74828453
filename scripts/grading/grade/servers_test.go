// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"testing"

	"lva.io/operators/clusters/longtest"
)

// A server that knows only HTTP and JSON fails only the checks of the features that it lacks: see
// testdata/operators/farm-plain/README.md.
func TestServerWithoutKubernetesLibraries(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	options := options(t, "7", copyOperator(t, "farm-plain"))
	options.Fetch, options.BuildCache = true, t.TempDir()
	verdicts{fails: map[string]string{
		"aggregated-discovery": `^the answer's kind is "APIGroupList"`,
		"patch":                "^the answer is 415 ",
		"namespaces":           "^the answer is 201 ",
		"bookmarks":            "no BOOKMARK$",
		"media-types":          "^the answer is 200 ",
		"farmpod-watch":        "and then no such BOOKMARK$",
	}}.compare(t, grade(t.Context(), t, options))
}

// A server on k8s.io/apiserver that keeps its llamas in the etcd of the run: see
// testdata/operators/farm-apiserver/README.md.
func testLibraryServer(t *testing.T) {
	t.Helper()
	t.Parallel()
	options := options(t, "7", copyOperator(t, "farm-apiserver"))
	options.Fetch, options.BuildCache = true, t.TempDir()
	prebuild(t, options)
	verdicts{fails: map[string]string{
		"farmpods":   "^the answer is 404 ",
		"bookmarks":  "no BOOKMARK$",
		"graceful":   `^there are \[carla pedro\]$`,
		"limits":     "none was refused$",
		"namespaces": "^the answer is 201 ",
	}, skipped: []string{"deputy", "farmpod-watch", "pods-unreadable"}}.compare(t, grade(t.Context(), t, options))
}
