// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package state

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic/dynamicinformer"
)

// syncPatience is the time limit for a new informer to have all objects.
const syncPatience = 2 * time.Minute

// point creates entries until there are count of them, and measures.
func (e *experiment) point(ctx context.Context, have, count int) (point Point, err error) {
	point.Objects = count
	if point.CreatedPerSecond, err = e.fill(ctx, have, count); err != nil {
		return point, err
	}
	e.Progress("measure", count, e.Objects)
	if err := e.requests(ctx, &point); err != nil {
		return point, err
	}
	if err := e.informer(ctx, &point); err != nil {
		return point, err
	}
	point.MemoryBytes = map[string]int64{}
	for program, pid := range maps.All(e.PIDs) {
		if point.MemoryBytes[program], err = residentMemory(ctx, pid); err != nil {
			return point, fmt.Errorf("measuring the memory of %s: %w", program, err)
		}
	}
	point.StorageBytes, err = e.storage(ctx)
	return point, err
}

// requests measures requests without decoding their responses, since the cost of decoding depends on the client.
func (e *experiment) requests(ctx context.Context, point *Point) (err error) {
	path := "/apis/" + entries.Group + "/" + entries.Version + "/namespaces/" + namespace + "/" + entries.Resource
	ask := func(path, selector string) (answer []byte, took time.Duration, err error) {
		took, err = median(func() (err error) {
			request := e.typed.Discovery().RESTClient().Get().AbsPath(path)
			if selector != "" {
				request.Param("labelSelector", selector)
			}
			answer, err = request.DoRaw(ctx)
			return err
		})
		if err != nil {
			return nil, 0, fmt.Errorf("asking for %s with %d objects: %w", path, point.Objects, err)
		}
		return answer, took, nil
	}
	last := name(point.Objects - 1)
	if _, point.Get, err = ask(path+"/"+last, ""); err != nil {
		return err
	}
	answer, took, err := ask(path, "")
	if err != nil {
		return err
	}
	point.List, point.ListBytes = took, int64(len(answer))
	answer, point.Labelled, err = ask(path, labels.Set{nth: last}.String())
	if err == nil && !bytes.Contains(answer, []byte(last)) {
		return fmt.Errorf("the list of those with the label of %s does not have it", last)
	}
	return err
}

// informer starts an informer as an operator's cache does, waits until it has all objects, and stops it.
func (e *experiment) informer(ctx context.Context, point *Point) error {
	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	before := heap()
	begin := time.Now()
	informers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(e.objects, 0, namespace, nil)
	informer := informers.ForResource(entries).Informer()
	informers.Start(ctx.Done())
	select {
	case <-informer.HasSyncedChecker().Done():
	case <-ctx.Done():
		return fmt.Errorf("waiting for an informer of %d objects: %w", point.Objects, context.Cause(ctx))
	}
	point.Sync = time.Since(begin)
	point.InformerBytes = max(heap()-before, 0)
	if have := len(informer.GetStore().ListKeys()); have != point.Objects {
		return fmt.Errorf("an informer has %d of %d objects", have, point.Objects)
	}
	cancel()
	informers.Shutdown()
	return nil
}

// heap returns how much memory of this process is in use.
func heap() int64 {
	var statistics runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&statistics)
	return int64(statistics.HeapAlloc) //nolint:gosec // a heap of this size would be none
}

// storageMetric is the API server's name for the size of etcd's file.
const storageMetric = "apiserver_storage_size_bytes"

// storage asks the API server's metrics for the size of etcd's file.
func (e *experiment) storage(ctx context.Context) (int64, error) {
	metrics, err := e.typed.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking for the API server's metrics: %w", err)
	}
	for line := range strings.Lines(string(metrics)) {
		if metric, value, found := strings.Cut(strings.TrimSpace(line), " "); found &&
			strings.HasPrefix(metric, storageMetric) {
			size, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("reading the metric %s: %w", storageMetric, err)
			}
			return int64(size), nil
		}
	}
	return 0, fmt.Errorf("the API server has no metric %s", storageMetric)
}

// residentMemory returns how many bytes of a process are in memory.
func residentMemory(ctx context.Context, pid int) (int64, error) {
	if runtime.GOOS != "linux" {
		kilobytes, err := exec.CommandContext(ctx, "ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
		if err != nil {
			return 0, fmt.Errorf("running ps: %w", err)
		}
		return parseKilobytes(string(kilobytes))
	}
	// Small Linux systems have no ps.
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			return parseKilobytes(strings.TrimSuffix(strings.TrimSpace(value), "kB"))
		}
	}
	return 0, fmt.Errorf("process %d has ended", pid)
}

func parseKilobytes(text string) (int64, error) {
	kilobytes, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return kilobytes << 10, err
}
