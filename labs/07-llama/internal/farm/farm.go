// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package farm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"lva.io/operators/labs/07-llama/api/v1alpha"
	"lva.io/operators/labs/07-llama/internal/serve"
)

// namePrefix makes the name of a FarmPod of the name of its Pod.
const namePrefix = "farm-"

var groupResource = schema.GroupResource{Group: v1alpha.GroupVersion.Group, Resource: "farmpods"}

// Authorizer says whether a user may do something.
type Authorizer interface {
	// Authorize returns a Forbidden error if the user may not do this.
	Authorize(ctx context.Context, user serve.User, action serve.Action) error
}

// Pods serves the Pods of a cluster as FarmPods.
type Pods struct {
	core   rest.Interface
	rights Authorizer
}

// TODO(lab): c1. Reading Pods needs a permission: +kubebuilder:rbac:groups="",resources=…,verbs=…, and
// `make manifests`.

// New returns the FarmPods of a cluster. core is a client for core/v1. It reads Pods with this program's rights, so
// each request is checked against the rights of its user.
func New(core rest.Interface, rights Authorizer) *Pods {
	return &Pods{core: core, rights: rights}
}

// Resource is how the server presents FarmPods: they can only be read.
func (p *Pods) Resource() serve.Resource {
	return serve.Resource{
		Kind: "FarmPod", ListKind: "FarmPodList", Plural: "farmpods", Singular: "farmpod", ShortNames: []string{"fp"},
		Object: &v1alpha.FarmPod{}, List: &v1alpha.FarmPodList{},
		Columns: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the FarmPod."},
			{Name: "Containers", Type: "integer", Description: "How many containers the Pod has."},
			{Name: "Images", Type: "string", Description: "Images of the containers."},
			{Name: "Age", Type: "string", Description: "Time since the Pod was created."},
		},
		Cells: func(object runtime.Object) []any {
			pod, ok := object.(*v1alpha.FarmPod)
			if !ok {
				return nil
			}
			var images []string
			for _, container := range pod.Spec.Containers {
				images = append(images, container.Image)
			}
			return []any{
				pod.Name, len(pod.Spec.Containers), strings.Join(images, ","),
				duration.HumanDuration(time.Since(pod.CreationTimestamp.Time)),
			}
		},
		Reader: p,
	}
}

// allow asks whether the user may do this with Pods, too. Without it the server would be a confused deputy, which lends
// its own rights to every client.
func (p *Pods) allow(ctx context.Context, verb, namespace, name string) error {
	// TODO(lab): c5. The client below reads Pods with the rights of this program. May the user?
	return nil
}

// Get returns farm-NAME for the Pod NAME.
func (p *Pods) Get(ctx context.Context, namespace, name string) (runtime.Object, error) {
	podName, isFarmPod := strings.CutPrefix(name, namePrefix)
	if err := p.allow(ctx, "get", namespace, podName); err != nil {
		return nil, err
	}
	if !isFarmPod || podName == "" {
		return nil, apierrors.NewNotFound(groupResource, name)
	}
	pod := &corev1.Pod{}
	if err := p.core.Get().Namespace(namespace).Resource("pods").Name(podName).Do(ctx).Into(pod); err != nil {
		return nil, explain(err, name)
	}
	return present(pod), nil
}

// List returns a FarmPod for each Pod. Selectors, limit and continue are those of Pods.
func (p *Pods) List(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	if err := p.allow(ctx, "list", namespace, ""); err != nil {
		return nil, err
	}
	options, err := forPods(options)
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	err = p.core.Get().
		Namespace(namespace).
		Resource("pods").
		VersionedParams(&options, metav1.ParameterCodec).
		Do(ctx).
		Into(pods)
	if err != nil {
		return nil, explain(err, "")
	}
	list := &v1alpha.FarmPodList{
		TypeMeta: metav1.TypeMeta{Kind: "FarmPodList", APIVersion: v1alpha.GroupVersion.String()},
		ListMeta: metav1.ListMeta{
			ResourceVersion: pods.ResourceVersion, Continue: pods.Continue, RemainingItemCount: pods.RemainingItemCount,
		},
		Items: []v1alpha.FarmPod{},
	}
	for i := range pods.Items {
		list.Items = append(list.Items, *present(&pods.Items[i]))
	}
	return list, nil
}

// Watch follows the Pods. A FarmPod has the resourceVersion of its Pod, so a client can resume from any that it has
// seen.
func (p *Pods) Watch(
	ctx context.Context, namespace string, options metav1.ListOptions,
) (iter.Seq[watch.Event], error) {
	if err := p.allow(ctx, "watch", namespace, ""); err != nil {
		return nil, err
	}
	options, err := forPods(options)
	if err != nil {
		return nil, err
	}
	options.Watch = true
	pods, err := p.core.Get().
		Namespace(namespace).
		Resource("pods").
		VersionedParams(&options, metav1.ParameterCodec).
		Watch(ctx)
	if err != nil {
		return nil, explain(err, "")
	}
	context.AfterFunc(ctx, pods.Stop)
	return func(yield func(watch.Event) bool) {
		for event := range pods.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				event.Object = present(pod)
			}
			if !yield(event) {
				return
			}
		}
	}, nil
}

// forPods turns the options for FarmPods into options for Pods, whose names have no prefix.
func forPods(options metav1.ListOptions) (metav1.ListOptions, error) {
	selector, err := fields.ParseSelector(options.FieldSelector)
	if err != nil {
		return options, apierrors.NewBadRequest(err.Error())
	}
	selector, err = selector.Transform(func(name, value string) (string, string, error) {
		if name != "metadata.name" {
			return name, value, nil
		}
		podName, isFarmPod := strings.CutPrefix(value, namePrefix)
		if !isFarmPod {
			podName = "-" // no Pod has this name, so nothing matches
		}
		return name, podName, nil
	})
	if err != nil {
		return options, apierrors.NewBadRequest(err.Error())
	}
	options.FieldSelector = selector.String()
	return options, nil
}

// present makes the FarmPod of a Pod. Its uid is its own, and the same each time.
func present(pod *corev1.Pod) *v1alpha.FarmPod {
	farmPod := &v1alpha.FarmPod{
		TypeMeta: metav1.TypeMeta{Kind: "FarmPod", APIVersion: v1alpha.GroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: pod.ResourceVersion, Annotations: bookmarkAnnotations(pod),
			Labels: pod.Labels, CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec: v1alpha.FarmPodSpec{Containers: []v1alpha.FarmPodContainer{}},
	}
	if pod.Name != "" { // a bookmark has no name
		farmPod.Name, farmPod.Namespace = namePrefix+pod.Name, pod.Namespace
		farmPod.UID = types.UID(uuid.NewSHA1(uuid.Nil, []byte("farmpod/"+pod.UID)).String())
	}
	for _, container := range pod.Spec.Containers {
		farmPod.Spec.Containers = append(farmPod.Spec.Containers, v1alpha.FarmPodContainer{
			Name: container.Name, Image: container.Image,
		})
	}
	return farmPod
}

// bookmarkAnnotations keeps the one annotation that a watch needs: where its initial events end.
func bookmarkAnnotations(pod *corev1.Pod) map[string]string {
	if value, found := pod.Annotations[metav1.InitialEventsAnnotationKey]; found {
		return map[string]string{metav1.InitialEventsAnnotationKey: value}
	}
	return nil
}

// explain turns the API server's error about Pods into one about FarmPods. If this program itself may not read Pods,
// that is not the user's fault, and the error must not say so.
func explain(err error, name string) error {
	var known apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err):
		return apierrors.NewNotFound(groupResource, name)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), !errors.As(err, &known):
		return unavailable(fmt.Sprintf("the server cannot read Pods: %v", err))
	default:
		return err // 410 Gone, 400 Bad Request, …: the same for both
	}
}

func unavailable(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable,
		Reason: metav1.StatusReasonServiceUnavailable, Message: message,
		Details: &metav1.StatusDetails{Group: groupResource.Group, Kind: groupResource.Resource, RetryAfterSeconds: 1},
	}}
}
