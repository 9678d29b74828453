// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package zombie

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/checks/icecream"
)

// ErrNoIcecreams is returned if the kind is not installed yet.
var ErrNoIcecreams = errors.New("the cluster does not know icecreams")

// planter plants a scene.
type planter struct {
	Scene
	client    kubernetes.Interface
	icecreams dynamic.ResourceInterface
}

func (s Scene) planter(config *rest.Config) (*planter, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for leases: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for icecreams: %w", err)
	}
	return &planter{Scene: s, client: client, icecreams: objects.Resource(icecream.Resource)}, nil
}

// Plant creates the scene. It keeps correct objects, and recreates those that a user has changed.
func (s Scene) Plant(ctx context.Context, config *rest.Config) error {
	p, err := s.planter(config)
	if err != nil {
		return err
	}
	if err := p.lease(ctx, s.Gone, time.Now().Add(-goneSince), goneHolds); err != nil {
		return err
	}
	if err := p.lease(ctx, s.Busy, time.Now(), busyHolds); err != nil {
		return err
	}
	for _, role := range s.roles() {
		if err := p.plant(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

// ourLabel returns the label of the objects that we created and may remove.
func ourLabel() map[string]string { return map[string]string{existing.Label: "true"} }

// lease writes the Lease of a controller's leader.
func (p *planter) lease(ctx context.Context, c Controller, renewed time.Time, holds time.Duration) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace, Labels: ourLabel()}}
	if _, err := p.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the namespace %s: %w", c.Namespace, err)
	}
	const terms = 3 // number of earlier leader changes: the value does not matter
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: c.Lease},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       new(c.identity()),
			LeaseDurationSeconds: new(int32(holds.Seconds())),
			LeaseTransitions:     new(int32(terms)),
			AcquireTime:          &metav1.MicroTime{Time: renewed.Add(-time.Hour)},
			RenewTime:            &metav1.MicroTime{Time: renewed},
		},
	}
	leases := p.client.CoordinationV1().Leases(c.Namespace)
	_, err := leases.Create(ctx, lease, metav1.CreateOptions{FieldManager: c.Name})
	if apierrors.IsAlreadyExists(err) {
		var before *coordinationv1.Lease
		if before, err = leases.Get(ctx, c.Lease, metav1.GetOptions{}); err == nil {
			lease.ResourceVersion = before.ResourceVersion
			_, err = leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: c.Name})
		}
	}
	if err != nil {
		return fmt.Errorf("writing the lease %s/%s: %w", c.Namespace, c.Lease, err)
	}
	return nil
}

// role is one icecream of the scene.
type role struct {
	name       string
	controller Controller
	finalizers []string
	box        string
	dying      bool
}

func (s Scene) roles() []role {
	gone, busy := []string{s.Gone.Finalizer}, []string{s.Busy.Finalizer}
	return []role{
		{s.Living, s.Gone, gone, s.LivingBox, false},
		{s.Slow, s.Busy, busy, "", true},
		{s.Zombie, s.Gone, slices.Concat(s.Before, gone, s.After), s.ZombieBox, true},
	}
}

// played reports whether an icecream is as its role requires. Other finalizers, such as the one of the student's
// operator, are not part of the scene.
func (r role) played(object *unstructured.Unstructured) bool {
	missing := slices.ContainsFunc(r.finalizers, func(f string) bool {
		return !slices.Contains(object.GetFinalizers(), f)
	})
	noted := r.box == "" || object.GetAnnotations()[r.controller.annotation()] == r.box
	return !missing && noted && (object.GetDeletionTimestamp() != nil) == r.dying
}

func (p *planter) plant(ctx context.Context, r role) error {
	object, err := p.icecreams.Get(ctx, r.name, metav1.GetOptions{})
	switch {
	case err == nil && r.played(object):
		return nil
	case err == nil:
		if err := p.remove(ctx, r.name); err != nil {
			return err
		}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading the icecream %s: %w", r.name, err)
	}
	// The icecream has its own flavour, so that it takes no other icecream's place.
	fresh := icecream.New(r.name, []string{r.name}, []string{"sprinkles"})
	if _, err := p.icecreams.Create(
		ctx, fresh, metav1.CreateOptions{FieldManager: "kubectl-create"},
	); apierrors.IsNotFound(err) {
		return ErrNoIcecreams
	} else if err != nil {
		return fmt.Errorf("creating the icecream %s: %w", r.name, err)
	}
	if err := p.hold(ctx, r); err != nil {
		return err
	}
	if !r.dying {
		return nil
	}
	if err := p.icecreams.Delete(ctx, r.name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the icecream %s: %w", r.name, err)
	}
	return nil
}

// hold adds the finalizers and an annotation to an icecream, as their controller would.
func (p *planter) hold(ctx context.Context, r role) error {
	for {
		object, err := p.icecreams.Get(ctx, r.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading the icecream %s: %w", r.name, err)
		}
		object.SetFinalizers(append(object.GetFinalizers(), r.finalizers...))
		if r.box != "" {
			object.SetAnnotations(map[string]string{r.controller.annotation(): r.box})
		}
		_, err = p.icecreams.Update(ctx, object, metav1.UpdateOptions{FieldManager: r.controller.Name})
		if apierrors.IsConflict(err) {
			continue // with a running operator that adds its own finalizer
		}
		if err != nil {
			return fmt.Errorf("putting finalizers on the icecream %s: %w", r.name, err)
		}
		return nil
	}
}

// annotation returns the key under which the controller notes what it has to clean up before an icecream is removed.
func (c Controller) annotation() string {
	return c.Finalizer + "-box"
}

// identity returns the identity of the controller's leader: the name of its Pod, as controller-runtime does.
func (c Controller) identity() string {
	pod := fnv.New32()
	pod.Write([]byte(c.Name))
	return fmt.Sprintf("%s-%08x", c.Name, pod.Sum32())
}

// Remove deletes the scene's icecreams, and removes the scene's finalizers. It returns an error, after a moment, if the
// finalizer of another controller still blocks the deletion of one.
func (s Scene) Remove(ctx context.Context, config *rest.Config) error {
	p, err := s.planter(config)
	if err != nil {
		return err
	}
	for _, r := range s.roles() {
		if err := p.remove(ctx, r.name); err != nil {
			return err
		}
	}
	return nil
}

// removePatience is how long an operator may take to remove its own finalizer.
const removePatience = 5 * time.Second

func (p *planter) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removePatience)
	defer cancel()
	all, err := p.icecreams.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return fmt.Errorf("watching the icecream %s: %w", name, err)
	}
	defer all.Stop()
	if err := p.icecreams.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the icecream %s: %w", name, err)
	}
	for {
		object, err := p.icecreams.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the icecream %s: %w", name, err)
		}
		ours := slices.Concat(p.Before, p.After, []string{p.Gone.Finalizer, p.Busy.Finalizer})
		others := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool {
			return slices.Contains(ours, f)
		})
		if len(others) < len(object.GetFinalizers()) {
			if err := p.setFinalizers(ctx, object, others); err != nil {
				return err
			}
			continue
		}
		select {
		case <-all.ResultChan():
		case <-ctx.Done():
			return fmt.Errorf("the icecream %s is still there, held by %s: "+
				"start the operator that this belongs to, or free it by hand",
				name, strings.Join(others, ", "))
		}
	}
}

// setFinalizers replaces the list, unless the icecream has changed since it was read.
func (p *planter) setFinalizers(ctx context.Context, object *unstructured.Unstructured, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": object.GetResourceVersion(),
	}})
	if err != nil {
		return err
	}
	_, err = p.icecreams.Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("freeing the icecream %s: %w", object.GetName(), err)
	}
	return nil
}
