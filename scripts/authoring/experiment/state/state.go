// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package state measures how a cluster behaves when its API server is used as a database: how large an object can be,
// how long a list takes, how long until every watch has seen a write, and how much memory and disk that costs. It
// creates its own kind, Entry, and fills the cluster with it, so the cluster must have no other users. It does not
// start a cluster.
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

// Options set the size of the experiment.
type Options struct {
	// Objects is the final number of objects. The experiment measures at 100, 300, 1,000, … below it, and at this number.
	Objects int
	// Watchers is the final number of watches. The experiment measures at 1, 10, 100, … below it, and at this number.
	Watchers int
	// Progress is called with the current step and its progress. It may be nil.
	Progress func(what string, done, total int)
}

// Cluster is the cluster in which the experiment runs.
type Cluster struct {
	// Config is an administrator's access. The experiment sets its own limits for requests.
	Config *rest.Config
	// PIDs are the process IDs of the cluster's processes on this machine, by name, such as kube-apiserver. The experiment
	// measures their memory.
	PIDs map[string]int
	// Version is the Kubernetes release.
	Version string
}

// Result has all measurements.
type Result struct {
	Kubernetes string `json:"kubernetes"`
	// Machine is the operating system, the architecture and the number of processors.
	Machine string   `json:"machine"`
	Limits  []Limit  `json:"limits"`
	Points  []Point  `json:"points"`
	FanOut  []FanOut `json:"fanOut"`
}

// Point has the measurements at one number of objects. Durations are medians, in nanoseconds in JSON.
type Point struct {
	Objects int `json:"objects"`
	// CreatedPerSecond is the rate of creations since the previous point, by sixteen concurrent clients.
	CreatedPerSecond float64 `json:"createdPerSecond"`
	// Get is how long it takes to get one object by name, List to list all of them, and Labelled to list the only one with
	// a label.
	Get      time.Duration `json:"get"`
	List     time.Duration `json:"list"`
	Labelled time.Duration `json:"labelled"`
	// ListBytes is the size of the list response, as JSON.
	ListBytes int64 `json:"listBytes"`
	// Sync is how long a new informer takes until it has all objects, and InformerBytes is the growth of its memory. Each
	// operator that watches the kind pays both when it starts.
	Sync          time.Duration `json:"sync"`
	InformerBytes int64         `json:"informerBytes"`
	// MemoryBytes is the resident memory of each process of the control plane.
	MemoryBytes map[string]int64 `json:"memoryBytes"`
	// StorageBytes is the size of etcd's file.
	StorageBytes int64 `json:"storageBytes"`
}

// FanOut is how long it takes from the beginning of a write until the first and the last of a number of watches have
// seen it, as medians.
type FanOut struct {
	Watchers int           `json:"watchers"`
	First    time.Duration `json:"first"`
	Last     time.Duration `json:"last"`
}

// Limit is the largest object of a kind that the API server accepts.
type Limit struct {
	Kind string `json:"kind"`
	// Bytes is how much text the object holds, accurate to one KiB.
	Bytes int `json:"bytes"`
	// Refusal is the API server's answer to one KiB more, and FarRefusal its answer to four MiB.
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

// Run runs the experiment. With 50,000 objects on two processors it takes about two minutes, mostly for creating them.
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
	// The limits come last, because the versions of large objects stay in etcd's file and in allocated memory.
	if result.Limits, err = e.limits(ctx); err != nil {
		return nil, err
	}
	return result, nil
}

func newExperiment(cluster Cluster, options Options) (*experiment, error) {
	if options.Objects < 2 || options.Watchers < 2 {
		return nil, fmt.Errorf("measuring with %d objects and %d watches: use at least 2 of each",
			options.Objects, options.Watchers)
	}
	if options.Progress == nil {
		options.Progress = func(string, int, int) {}
	}
	config := rest.CopyConfig(cluster.Config)
	config.QPS = -1 // otherwise the experiment would only measure client-go's own limit
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

// steps returns the numbers that are smaller than the last one, followed by the last one. If none is smaller, the first
// step is half of the last one.
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

// median does something several times, and returns its median duration.
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
