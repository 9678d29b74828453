// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// writePatience is the time limit for all watches to see a write.
const writePatience = time.Minute

// sighting records that a watch has seen a write.
type sighting struct {
	at      time.Time
	version string
	err     error
}

// fanOut opens watches, writes an entry several times, and measures when the first and the last of them have seen each
// write.
func (e *experiment) fanOut(ctx context.Context, watchers int) (FanOut, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.Progress("measure with watches", watchers, e.Watchers)
	seen, err := e.openWatches(ctx, watchers)
	if err != nil {
		return FanOut{}, err
	}
	var firsts, lasts []time.Duration
	for range samples {
		first, last, err := e.write(ctx, seen, watchers)
		if err != nil {
			return FanOut{}, fmt.Errorf("writing with %d open watches: %w", watchers, err)
		}
		firsts, lasts = append(firsts, first), append(lasts, last)
	}
	slices.Sort(firsts)
	slices.Sort(lasts)
	return FanOut{Watchers: watchers, First: firsts[samples/2], Last: lasts[samples/2]}, nil
}

// openWatches opens count watches of all entries, which begin now. They end with the context.
func (e *experiment) openWatches(ctx context.Context, count int) (<-chan sighting, error) {
	now, err := e.entries().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("getting the current resource version: %w", err)
	}
	seen := make(chan sighting, count*samples)
	for range count {
		watcher, err := e.entries().Watch(ctx, metav1.ListOptions{ResourceVersion: now.GetResourceVersion()})
		if err != nil {
			return nil, fmt.Errorf("opening %d watches: %w", count, err)
		}
		go report(ctx, watcher, seen)
	}
	return seen, nil
}

// report sends a sighting for each event of a watch.
func report(ctx context.Context, watcher watch.Interface, seen chan<- sighting) {
	defer watcher.Stop()
	send := func(s sighting) {
		select {
		case seen <- s:
		case <-ctx.Done():
		}
	}
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(metav1.Object)
		if !ok || event.Type == watch.Error {
			send(sighting{err: fmt.Errorf("a watch ended: %v", event.Object)})
			return
		}
		send(sighting{at: time.Now(), version: object.GetResourceVersion()})
	}
	send(sighting{err: errors.New("a watch ended")})
}

// write changes an entry, and waits until all watches have seen the change.
func (e *experiment) write(
	ctx context.Context, seen <-chan sighting, watchers int,
) (first, last time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	begin := time.Now()
	patch := fmt.Appendf(nil, `{"spec":{"writes":%d}}`, begin.UnixNano())
	written, err := e.entries().Patch(ctx, name(0), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return 0, 0, err
	}
	for i := range watchers {
		select {
		case s := <-seen:
			if s.err != nil {
				return 0, 0, s.err
			}
			if s.version != written.GetResourceVersion() {
				return 0, 0, fmt.Errorf("a watch reports version %s, and %s was written", s.version, written.GetResourceVersion())
			}
			took := s.at.Sub(begin)
			if i == 0 {
				first = took
			}
			first, last = min(first, took), max(last, took)
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("%d of %d have seen it: %w", i, watchers, context.Cause(ctx))
		}
	}
	return first, last, nil
}
