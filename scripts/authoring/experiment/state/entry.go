// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package state

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/await"
)

//go:embed entry.yaml
var definition []byte

const (
	namespace = metav1.NamespaceDefault
	// payload is how much text each entry holds, in bytes.
	payload = 1 << 10
	// creators is how many requests that create entries run at once.
	creators = 16
	// patience is the time limit for the API server to serve a new kind.
	patience     = 30 * time.Second
	pollInterval = 50 * time.Millisecond
	// nth is a label. Each entry has a different value of it.
	nth = "nth"
)

var (
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	entries = schema.GroupVersionResource{Group: "state.lva.io", Version: "v1", Resource: "entries"}
)

// install creates the kind, and waits until the API server serves it.
func (e *experiment) install(ctx context.Context) error {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(definition, &crd.Object); err != nil {
		return fmt.Errorf("reading the kind Entry: %w", err)
	}
	if _, err := e.objects.Resource(definitions).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the kind Entry: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return await.Until(ctx, pollInterval, "the kind Entry", func(ctx context.Context) (reason string, err error) {
		_, err = e.entries().List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) {
			return err.Error(), nil
		}
		return "", err
	})
}

func (e *experiment) entries() dynamic.ResourceInterface {
	return e.objects.Resource(entries).Namespace(namespace)
}

// name returns the name of an entry, which is also the value of its label.
func name(i int) string { return fmt.Sprintf("entry-%06d", i) }

// entry returns an object with a text of the given size in bytes.
func entry(name string, size int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": entries.GroupVersion().String(),
		"kind":       "Entry",
		"metadata":   map[string]any{"name": name, "labels": map[string]any{nth: name}},
		"spec":       map[string]any{"text": strings.Repeat("x", size)},
	}}
}

// fill creates entries until there are count of them, and returns how many it created per second.
func (e *experiment) fill(ctx context.Context, have, count int) (perSecond float64, err error) {
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := have; i < count && ctx.Err() == nil; i++ {
		e.Progress("create entries", i, e.Objects)
		group.Go(func() error {
			if _, err := e.entries().Create(ctx, entry(name(i), payload), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating entry %d: %w", i, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return float64(count-have) / time.Since(begin).Seconds(), nil
}
