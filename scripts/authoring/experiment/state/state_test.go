// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package state

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/multicall"
)

// newCluster starts a cluster for one test.
func newCluster(t *testing.T) Cluster {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	program, err := multicall.New(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	cluster, err := embedded.StartServer(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return Cluster{Config: cluster.Config(), PIDs: cluster.PIDs(), Version: cluster.Version}
}

func TestSmallExperiment(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	reported := map[string]bool{}
	result, err := Run(t.Context(), newCluster(t), Options{
		Objects: 400, Watchers: 20, Progress: func(what string, _, _ int) { reported[what] = true },
	})
	if err != nil {
		t.Fatal(err)
	}
	var objects, watchers []int
	for _, point := range result.Points {
		objects = append(objects, point.Objects)
		if point.Get <= 0 || point.List <= 0 || point.Labelled <= 0 || point.Sync <= 0 || point.CreatedPerSecond <= 0 ||
			point.StorageBytes <= 0 || point.MemoryBytes["kube-apiserver"] < 10<<20 || point.MemoryBytes["etcd"] < 5<<20 {
			t.Errorf("measurements are missing: %+v", point)
		}
		if point.ListBytes < int64(point.Objects)*payload {
			t.Errorf("a list of %d objects with 1 KiB each has %d bytes", point.Objects, point.ListBytes)
		}
	}
	for _, fanOut := range result.FanOut {
		watchers = append(watchers, fanOut.Watchers)
		if fanOut.First <= 0 || fanOut.Last < fanOut.First {
			t.Errorf("watches saw a write after %v to %v", fanOut.First, fanOut.Last)
		}
	}
	if want := []int{100, 300, 400}; !slices.Equal(objects, want) {
		t.Errorf("measured with %v objects, want %v", objects, want)
	}
	if want := []int{1, 10, 20}; !slices.Equal(watchers, want) {
		t.Errorf("measured with %v watches, want %v", watchers, want)
	}
	// etcd accepts requests of 1.5 MiB, and a ConfigMap may hold 1 MiB. The documentation of Kubernetes has both limits.
	for i, want := range []struct {
		least, most int
		refusal     string
	}{
		{1<<20 + 400<<10, 1<<20 + 512<<10, "request is too large"},
		{1<<20 - 2<<10, 1 << 20, "may not be more than 1048576 bytes"},
	} {
		limit := result.Limits[i]
		if limit.Bytes < want.least || limit.Bytes > want.most || !strings.Contains(limit.Refusal, want.refusal) {
			t.Errorf("%+v, want from %d to %d bytes, and %q", limit, want.least, want.most, want.refusal)
		}
	}
	for _, what := range []string{"create entries", "measure", "look for the largest object", "measure with watches"} {
		if !reported[what] {
			t.Errorf("Progress was not called with %q: %v", what, reported)
		}
	}
	for _, c := range result.Charts() {
		if _, err := c.SVG(); err != nil {
			t.Error(err)
		}
		if _, err := c.Terminal(80, false); err != nil {
			t.Error(err)
		}
	}
	if tables := result.Tables(); !strings.Contains(tables, "| 400 |") || !strings.Contains(tables, "| 20 |") {
		t.Errorf("figures are missing in the tables:\n%s", tables)
	}
}

func TestInterruptedExperimentEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Run(ctx, newCluster(t), Options{Objects: 1_000_000, Watchers: 2, Progress: func(what string, done, _ int) {
		if what == "create entries" && done > 200 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run() error = %v", err)
	}
}

func TestTooSmallExperimentIsRefused(t *testing.T) {
	t.Parallel()
	for _, options := range []Options{{Objects: 1, Watchers: 2}, {Objects: 2, Watchers: 1}} {
		if _, err := Run(t.Context(), Cluster{}, options); err == nil || !strings.Contains(err.Error(), "at least 2") {
			t.Errorf("Run(%+v): error = %v", options, err)
		}
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		last int
		want []int
	}{
		{50, []int{25, 50}},
		{100, []int{50, 100}},
		{1000, []int{100, 300, 1000}},
		{1001, []int{100, 300, 1000, 1001}},
	} {
		if got := steps(test.last, 100, 300, 1000); !slices.Equal(got, test.want) {
			t.Errorf("steps(%d) = %v, want %v", test.last, got, test.want)
		}
	}
}
