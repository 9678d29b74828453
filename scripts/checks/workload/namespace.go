// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/existing"
)

// Namespace creates a namespace with our label. It is no error if the namespace exists.
func (o *Owners) Namespace(ctx context.Context, name string) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{existing.Label: "true"},
	}}
	if _, err := o.Client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the namespace %s: %w", name, err)
	}
	return nil
}

// ForbidPods forbids all Pods in a namespace, since a Pod takes a second of CPU time.
func (o *Owners) ForbidPods(ctx context.Context, namespace string) error {
	return o.Limit(ctx, namespace, "no-pods", corev1.ResourcePods, "0")
}

// HoldPods allows Pods to be created in a namespace, but none of them starts, because each requests more than any node
// has. So there are Pods to count, and a test may write their status as a kubelet would.
func (o *Owners) HoldPods(ctx context.Context, namespace string) error {
	much := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100k")}
	limits := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "more-than-there-is"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: much, Default: much,
		}}},
	}
	_, err := o.Client.CoreV1().LimitRanges(namespace).Create(ctx, limits, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("letting no Pod start in %s: %w", namespace, err)
	}
	return nil
}

// Ports draws unused node ports, in an order that the seed decides. It draws a port again only after all others,
// because a deleted Service releases its port a moment later, and a torture needs more ports than there are.
type Ports struct {
	free []int32
	next int
}

// This is the default range of node ports of API servers.
const (
	FirstPort = 30000
	LastPort  = 32767
)

// FreePorts returns Ports that draw from the ports that no Service has now.
func (o *Owners) FreePorts(ctx context.Context, random *rand.Rand) (*Ports, error) {
	services, err := o.Client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for the Services: %w", err)
	}
	return freePorts(services.Items, random)
}

func freePorts(services []corev1.Service, random *rand.Rand) (*Ports, error) {
	taken := map[int32]bool{}
	for _, service := range services {
		for _, port := range service.Spec.Ports {
			taken[port.NodePort] = true
		}
	}
	ports := &Ports{}
	for port := int32(FirstPort); port <= LastPort; port++ {
		if !taken[port] {
			ports.free = append(ports.free, port)
		}
	}
	if len(ports.free) == 0 {
		return nil, fmt.Errorf("all node ports from %d to %d are those of Services: delete some", FirstPort, LastPort)
	}
	random.Shuffle(len(ports.free), func(i, j int) { ports.free[i], ports.free[j] = ports.free[j], ports.free[i] })
	return ports, nil
}

// Draw draws a port.
func (p *Ports) Draw() int32 {
	port := p.free[p.next]
	p.next = (p.next + 1) % len(p.free)
	return port
}

// removeTimeout is how long deleted owners may take to disappear. An owner with a finalizer that no controller removes
// never does.
const removeTimeout = 10 * time.Second

// Remove deletes all owners in the given namespaces, except those that are to be kept, and waits until they are gone.
func (o *Owners) Remove(ctx context.Context, keep func(types.NamespacedName) bool, namespaces ...string) error {
	for _, name := range o.All(namespaces...) {
		if !keep(name) {
			if err := o.Delete(ctx, name); err != nil {
				return err
			}
		}
	}
	return await.Within(ctx, removeTimeout, 20*time.Millisecond, "the "+o.Resource.Resource+" to go",
		func(context.Context) (string, error) {
			for _, name := range o.All(namespaces...) {
				if !keep(name) {
					return name.Name + " is there", nil
				}
			}
			return "", nil
		})
}

// Wipe is Remove, and then RemoveChildren.
func (o *Owners) Wipe(ctx context.Context, keep func(types.NamespacedName) bool, namespaces ...string) error {
	if err := o.Remove(ctx, keep, namespaces...); err != nil {
		return err
	}
	return o.RemoveChildren(ctx, keep, namespaces...)
}

// RemoveChildren deletes all Deployments and Services in the given namespaces, regardless of their owners and
// finalizers, except those whose names are to be kept. It deletes the objects that the watch has reported, one by one.
// To delete a collection, the API server first makes sure that its own cache is up to date, which takes up to 100 ms
// (k8s.io/apiserver/pkg/storage/cacher, progressRequestPeriod).
func (o *Owners) RemoveChildren(ctx context.Context, keep func(types.NamespacedName) bool, namespaces ...string) error {
	background := metav1.DeletePropagationBackground
	for _, childResource := range children {
		for _, one := range o.informers[childResource].GetStore().List() {
			child := one.(*unstructured.Unstructured)
			client := o.Dynamic.Resource(childResource).Namespace(child.GetNamespace())
			if !slices.Contains(namespaces, child.GetNamespace()) || keep(nameOf(child)) {
				continue
			}
			if len(child.GetFinalizers()) > 0 {
				_, err := client.Patch(ctx, child.GetName(),
					types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("removing the finalizers of %s %s: %w", childResource.Resource, child.GetName(), err)
				}
			}
			err := client.Delete(ctx, child.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("removing %s %s: %w", childResource.Resource, child.GetName(), err)
			}
		}
	}
	return nil
}
