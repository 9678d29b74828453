// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package state measures what becomes of a cluster whose API server is used as a database: how large an object can be,
// how long a list takes, how long until every watch has seen a write, and how much memory and disk that costs. It
// creates its own kind, Entry, and fills the cluster with it, so it wants a cluster that nobody else uses. It does not
// start one, and it draws nothing but charts.
package state

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Options say how large the experiment is.
type Options struct {
	// Objects is how many objects there are in the end. Measured are the numbers 100, 300, 1,000, … below it, and it
	// itself.
	Objects int
	// Watchers is how many watches there are in the end. Measured are 1, 10, 100, … below it, and it itself.
	Watchers int
	// Say is told what is being done, and how far that is. It may be nil.
	Say func(what string, done, total int)
}

// Cluster is where the experiment runs.
type Cluster struct {
	// Config is an administrator's access. The experiment sets its own limits for requests.
	Config *rest.Config
	// PIDs are the numbers of the cluster's processes on this machine by their names, as kube-apiserver. Their memory is
	// measured.
	PIDs map[string]int
	// Version is the Kubernetes release.
	Version string
}

// Result is what was measured.
type Result struct {
	Kubernetes string `json:"kubernetes"`
	// Machine is the operating system, the architecture and the number of processors.
	Machine string   `json:"machine"`
	Limits  []Limit  `json:"limits"`
	Points  []Point  `json:"points"`
	FanOut  []FanOut `json:"fanOut"`
}

// Point is what was measured with one number of objects. Durations are medians, in nanoseconds in JSON.
type Point struct {
	Objects int `json:"objects"`
	// CreatedPerSecond is how many objects were created in a second since the point before, by sixteen clients at once.
	CreatedPerSecond float64 `json:"createdPerSecond"`
	// Get is how long one object takes by its name, List all of them, Labelled the only one with a label.
	Get      time.Duration `json:"get"`
	List     time.Duration `json:"list"`
	Labelled time.Duration `json:"labelled"`
	// ListBytes is the size of the answer to the list, as JSON.
	ListBytes int64 `json:"listBytes"`
	// Sync is how long a new informer takes until it has all objects, and InformerBytes what its memory grows by. Each
	// operator that watches the kind pays both at its start.
	Sync          time.Duration `json:"sync"`
	InformerBytes int64         `json:"informerBytes"`
	// MemoryBytes is the resident memory of each process of the control plane.
	MemoryBytes map[string]int64 `json:"memoryBytes"`
	// StorageBytes is the size of etcd's file.
	StorageBytes int64 `json:"storageBytes"`
}

// FanOut is how long it takes from the beginning of a write until the first and the last of so many watches have seen
// it: medians.
type FanOut struct {
	Watchers int           `json:"watchers"`
	First    time.Duration `json:"first"`
	Last     time.Duration `json:"last"`
}

// Limit is the largest object of a kind that the API server accepts.
type Limit struct {
	Kind string `json:"kind"`
	// Bytes is how much text it holds, to a KiB.
	Bytes int `json:"bytes"`
	// Refusal is what the API server says to a KiB more, and FarRefusal what it says to four MiB.
	Refusal    string `json:"refusal"`
	FarRefusal string `json:"farRefusal"`
}

// experiment is one run.
type experiment struct {
	Cluster
	Options
	typed   kubernetes.Interface
	objects dynamic.Interface
}

// Run measures. It takes about two minutes for 50,000 objects on two processors, most of it to create them.
func Run(ctx context.Context, cluster Cluster, options Options) (*Result, error) {
	e, err := newExperiment(cluster, options)
	if err != nil {
		return nil, err
	}
	if err := e.install(ctx); err != nil {
		return nil, err
	}
	result := &Result{
		Kubernetes: cluster.Version,
		Machine:    fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
	}
	have := 0
	for _, count := range steps(options.Objects, 100, 300, 1000, 3000, 10_000, 30_000) {
		point, err := e.point(ctx, have, count)
		if err != nil {
			return nil, err
		}
		result.Points, have = append(result.Points, point), count
	}
	for _, count := range steps(options.Watchers, 1, 10, 100, 300, 1000) {
		fanOut, err := e.fanOut(ctx, count)
		if err != nil {
			return nil, err
		}
		result.FanOut = append(result.FanOut, fanOut)
	}
	// Last, since the versions of large objects stay in etcd's file, and what was allocated for them in memory.
	if result.Limits, err = e.limits(ctx); err != nil {
		return nil, err
	}
	return result, nil
}

func newExperiment(cluster Cluster, options Options) (*experiment, error) {
	if options.Objects < 2 || options.Watchers < 2 {
		return nil, fmt.Errorf("measuring with %d objects and %d watches: take at least 2 of each", options.Objects, options.Watchers)
	}
	if options.Say == nil {
		options.Say = func(string, int, int) {}
	}
	config := rest.CopyConfig(cluster.Config)
	config.QPS = -1 // client-go's own limit would be all that is measured
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("measuring: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("measuring: %w", err)
	}
	return &experiment{Cluster: cluster, Options: options, typed: typed, objects: objects}, nil
}

// steps are those of the numbers that are smaller than the last one, and the last one. If none is smaller, half of it
// is the first.
func steps(last int, numbers ...int) (all []int) {
	for _, number := range numbers {
		if number < last {
			all = append(all, number)
		}
	}
	if len(all) == 0 {
		all = append(all, last/2)
	}
	return append(all, last)
}

// samples is how often each duration is measured.
const samples = 5

// median does something several times, and returns how long it takes.
func median(do func() error) (time.Duration, error) {
	var all []time.Duration
	for range samples {
		begin := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}
