// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/apply"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// fieldOwner is the field manager of everything that is applied.
const fieldOwner = "operator-labs-addons"

// plainPatience is how long it may take until an add-on without a chart is usable.
const plainPatience = 3 * time.Minute

// plain is an add-on without a chart: objects in a namespace of its own, one of them a Deployment. The add-on, the
// namespace and the Deployment have the same name.
type plain struct {
	name   string
	target Target
	client kubernetes.Interface
}

func newPlain(name string, target Target) (*plain, error) {
	client, err := kubernetes.NewForConfig(target.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", name, err)
	}
	return &plain{name: name, target: target, client: client}, nil
}

// objects returns the objects of the add-on's manifest.
func (p *plain) objects() ([]*unstructured.Unstructured, error) {
	content, err := manifests.ReadFile("manifests/" + p.name + ".yaml")
	if err != nil {
		return nil, err
	}
	return apply.Parse(content)
}

// apply waits until an earlier namespace that is being deleted is gone, and then applies the objects. On a shared
// cluster it does not write into a namespace of another owner.
func (p *plain) apply(ctx context.Context, objects []*unstructured.Unstructured, report func(string)) error {
	if p.target.Shared {
		namespace, err := p.client.CoreV1().Namespaces().Get(ctx, p.name, metav1.GetOptions{})
		if err == nil && namespace.Labels[createdBy] == "" {
			return fmt.Errorf("the cluster has a namespace %s that we did not create, and %s needs that name: "+
				"ask the administrator of the cluster", p.name, p.name)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("looking for the namespace %s: %w", p.name, err)
		}
	}
	if err := namespaceReady(ctx, p.client, p.name, p.name, report); err != nil {
		return err
	}
	return apply.Objects(ctx, p.target.Config, fieldOwner, objects)
}

// deployment returns the add-on's Deployment, or nil if there is none.
func (p *plain) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	deployment, err := p.client.AppsV1().Deployments(p.name).Get(ctx, p.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", p.name, err)
	}
	return deployment, nil
}

// waitReady waits until the Deployment is ready and its Service answers as expected.
func (p *plain) waitReady(ctx context.Context, path, wanted string, report func(string)) error {
	return waitReady(ctx, p.target, p.name, plainPatience, p.name, report, func(ctx context.Context) (string, error) {
		return p.objection(ctx, path, wanted)
	})
}

// objection reports what is missing until the Service answers a request with the wanted text. The API server forwards
// the request, so that it comes from within the cluster. path begins with the Service and its port, as
// "https:ingress:443/shop".
func (p *plain) objection(ctx context.Context, path, wanted string) (string, error) {
	deployment, err := p.deployment(ctx)
	if err != nil {
		return "", err
	}
	if deployment == nil {
		return "it has no Deployment", nil
	}
	if !deploymentReady(deployment) {
		return "its Pod is not ready", nil
	}
	service, page, _ := strings.Cut(path, "/")
	// An error response, such as 404, is an answer, too.
	answer, err := p.client.CoreV1().RESTClient().Get().Namespace(p.name).
		Resource("services").Name(service).SubResource("proxy").
		Suffix(page).DoRaw(ctx)
	if strings.Contains(string(answer), wanted) {
		return "", nil
	}
	if err != nil {
		return "its Service does not answer yet: " + oneLine(err.Error()), nil
	}
	return "its Service answers otherwise: " + oneLine(string(answer)), nil
}

// state returns the state of the add-on.
func (p *plain) state(ctx context.Context, path, wanted string) (State, error) {
	state := State{Name: p.name}
	objects, err := p.objects()
	if err != nil {
		return state, err
	}
	state.Pinned = pinnedBy(objects)
	deployment, err := p.deployment(ctx)
	if err != nil {
		return state, err
	}
	if deployment == nil {
		state.Detail = "not installed"
		return state, nil
	}
	state.Installed = imageVersion(deployment.Spec.Template.Spec)
	objection, err := p.objection(ctx, path, wanted)
	if err != nil {
		return state, err
	}
	state.Usable, state.Detail = objection == "", objection
	return state, nil
}

// pinnedBy returns the version of the image that a manifest's Deployment runs.
func pinnedBy(objects []*unstructured.Unstructured) string {
	image := imageOf(objects)
	return number(image[strings.LastIndex(image, ":")+1:])
}

// imageOf returns the image that a manifest's Deployment runs.
func imageOf(objects []*unstructured.Unstructured) string {
	for _, object := range objects {
		containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if len(containers) == 0 {
			continue
		}
		if container, ok := containers[0].(map[string]any); ok {
			return fmt.Sprint(container["image"])
		}
	}
	return ""
}

// uninstall removes what the install created: the objects without a namespace that have our label, and the namespace
// with everything in it.
func (p *plain) uninstall(ctx context.Context) error {
	labelled := metav1.ListOptions{LabelSelector: createdBy + "=" + p.name}
	for what, remove := range map[string]func(context.Context, metav1.DeleteOptions, metav1.ListOptions) error{
		"ingress classes":       p.client.NetworkingV1().IngressClasses().DeleteCollection,
		"cluster role bindings": p.client.RbacV1().ClusterRoleBindings().DeleteCollection,
		"cluster roles":         p.client.RbacV1().ClusterRoles().DeleteCollection,
	} {
		if err := remove(ctx, metav1.DeleteOptions{}, labelled); err != nil {
			return fmt.Errorf("removing the %s of %s: %w", what, p.name, err)
		}
	}
	return removeNamespace(ctx, p.client, p.name)
}
