// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package existing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/openapi"
)

// Baseline is a record of everything in a cluster, to which the cluster can be restored. It is for a cluster without
// other users: objects that are created later count as left behind by earlier runs.
type Baseline struct {
	cluster *Cluster
	objects map[objectKey]object
	living  bool
}

// objectKey identifies an object by its group, resource, namespace and name, but not by its UID.
type objectKey struct{ group, resource, namespace, name string }

func (o object) key() objectKey {
	return objectKey{o.resource.Group, o.resource.Resource, o.namespace, o.name}
}

// NewBaseline records what is in the cluster now.
func NewBaseline(ctx context.Context, cluster *Cluster) (*Baseline, error) {
	all, err := cluster.list(ctx, everything)
	if err != nil {
		return nil, err
	}
	b := &Baseline{cluster: cluster, objects: map[objectKey]object{}}
	for _, one := range all {
		b.objects[one.key()] = one
	}
	return b, nil
}

// NewBaselineWithPods is like NewBaseline, for a cluster in which Pods run. Their Nodes, Leases and EndpointSlices
// change by themselves, so an object of the baseline counts as unchanged as long as it exists.
func NewBaselineWithPods(ctx context.Context, cluster *Cluster) (*Baseline, error) {
	b, err := NewBaseline(ctx, cluster)
	if b != nil {
		b.living = true
	}
	return b, err
}

// everything is the selector of all objects.
const everything = ""

// ErrChanged reports that an object of the baseline was changed or removed, which can't be undone.
var ErrChanged = errors.New("objects that existed before have changed")

// Restore removes everything that was created since, and returns when the cluster is as it was, including the kinds
// that the API server reports as served. The error is an ErrChanged if that is not possible.
func (b *Baseline) Restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cleanTimeout, fmt.Errorf("it took longer than %s", cleanTimeout))
	defer cancel()
	client, err := kubernetes.NewForConfig(b.cluster.config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	var current, came, kinds []object
	if err := poll(ctx, "the cluster to be as it was", func() (bool, error) {
		current, err = b.cluster.list(ctx, everything)
		if err != nil {
			return false, err
		}
		came = slices.DeleteFunc(slices.Clone(current), func(one object) bool { return b.objects[one.key()].uid == one.uid })
		kinds = append(kinds, slices.DeleteFunc(slices.Clone(came), func(one object) bool {
			return one.stage() != definitions
		})...)
		return len(came) == 0, b.remove(ctx, client, came)
	}); err != nil {
		return fmt.Errorf("%w; remaining: %s", err, namesOf(came))
	}
	now := map[objectKey]object{}
	for _, one := range current {
		now[one.key()] = one
	}
	for key, before := range b.objects {
		if same := before.same(now[key]) ||
			b.living && (before.uid == now[key].uid || before.resource.Resource == "events"); !same {
			return fmt.Errorf("%w: %s", ErrChanged, before)
		}
	}
	return b.waitUnpublished(ctx, kinds)
}

// remove removes the objects that were created since. Nothing can be created in a namespace that is being deleted, so
// an empty one is finalized here. The namespace controller would begin only after five seconds.
// (k8s.io/kubernetes/pkg/controller/namespace)
func (b *Baseline) remove(ctx context.Context, client kubernetes.Interface, came []object) error {
	kinds := sets.New[string]()
	var spaces, rest []object
	for _, one := range came {
		switch one.stage() {
		case namespaces:
			spaces = append(spaces, one)
			if err := client.CoreV1().Namespaces().Delete(ctx, one.name, metav1.DeleteOptions{}); ignoreGone(err) != nil {
				return fmt.Errorf("removing %s: %w", one, err)
			}
			continue
		case definitions:
			kinds.Insert(one.name)
		}
		rest = append(rest, one)
	}
	// Deleting a kind also deletes all objects of that kind.
	rest = slices.DeleteFunc(rest, func(one object) bool { return kinds.Has(one.resource.GroupResource().String()) })
	if len(rest) > 0 {
		_, err := b.cluster.remove(ctx, rest)
		return err
	}
	for _, one := range spaces {
		space, err := client.CoreV1().Namespaces().Get(ctx, one.name, metav1.GetOptions{})
		if err == nil {
			space.Spec.Finalizers = nil
			_, err = client.CoreV1().Namespaces().Finalize(ctx, space, metav1.UpdateOptions{})
		}
		if ignoreGone(err) != nil {
			return fmt.Errorf("removing %s: %w", one, err)
		}
	}
	return nil
}

// same reports whether an object is as it was. A Lease is renewed all the time.
func (o object) same(now object) bool {
	if o.resource.Resource == "leases" {
		return o.uid == now.uid
	}
	return o == now
}

// waitUnpublished returns when the API server no longer publishes the deleted kinds. Until then it would describe a new
// kind of the same name as the old one.
func (b *Baseline) waitUnpublished(ctx context.Context, kinds []object) error {
	groups := sets.New[string]()
	for _, kind := range kinds {
		_, group, _ := strings.Cut(kind.name, ".")
		groups.Insert(group)
	}
	if len(groups) == 0 {
		return nil
	}
	client, err := b.cluster.discovery()
	if err != nil {
		return err
	}
	return poll(ctx, "the API server to forget "+strings.Join(sets.List(groups), ", "), func() (bool, error) {
		served, err := client.ServerGroups()
		if err != nil {
			return false, fmt.Errorf("listing the cluster's kinds: %w", err)
		}
		for _, group := range served.Groups {
			if groups.Has(group.Name) {
				return false, nil
			}
		}
		paths, err := openapi.NewClient(client.RESTClient()).Paths()
		if err != nil {
			return false, fmt.Errorf("reading the schemas of the cluster's kinds: %w", err)
		}
		for path := range paths {
			if rest, is := strings.CutPrefix(path, "apis/"); is {
				if group, _, _ := strings.Cut(rest, "/"); groups.Has(group) {
					return false, nil
				}
			}
		}
		return true, nil
	})
}

// namesOf returns the names of some of the objects.
func namesOf(all []object) string {
	const most = 5
	var names []string
	for _, one := range all[:min(most, len(all))] {
		names = append(names, one.String())
	}
	return strings.Join(names, ", ")
}
