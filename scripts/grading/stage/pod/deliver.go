// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

// placeholder is the image in kubebuilder's scaffolds that the submission's own image replaces.
const placeholder = "controller"

// digestLength is the number of characters of a program's digest in its image's tag, which is enough to distinguish
// programs.
const digestLength = 12

// referenceOf names a submission's image. Several submissions may be graded at the same time on one image store, so the
// tag identifies the program.
func referenceOf(what stage.Submission) (string, error) {
	digest, err := gobuild.Digest(what.Program())
	if err != nil {
		return "", fmt.Errorf("naming the submission's image: %w", err)
	}
	digest = strings.TrimPrefix(digest, "sha256:")
	return graded + what.Name + "-" + digest[:min(len(digest), digestLength)], nil
}

// Deliver loads the submission's image into the nodes, and renders config/default.
func (p *podStage) Deliver(ctx context.Context, what stage.Submission) (*stage.Delivery, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, installTimeout,
		fmt.Errorf("it was not delivered within %s", installTimeout))
	defer cancel()
	objects, err := what.Kustomize(ctx, p.kubectl)
	if err != nil {
		return nil, err
	}
	if err := confine(objects, what.Manifests, false); err != nil {
		return nil, err
	}
	reference, err := referenceOf(what)
	if err != nil {
		return nil, err
	}
	delivery := &stage.Delivery{Image: reference}
	if err := p.nodes.Load(ctx, delivery.Image, what.Program()); err != nil {
		return nil, err
	}
	if delivery.User, err = setImage(objects, delivery.Image); err != nil {
		return nil, err
	}
	delivery.Manifests, err = asYAML(objects)
	return delivery, err
}

// graded is the prefix of the references of graded submissions.
const graded = "operator-labs/graded:"

// setImage sets the image of the submission's containers: of all whose image is the placeholder and, if there is only
// one Deployment, of its operator. It returns the user of that Deployment's Pods. If there is no Deployment, the same
// applies to DaemonSets.
func setImage(objects []*unstructured.Unstructured, image string) (user string, err error) {
	workloads, others := ofKind(objects, "Deployment"), ofKind(objects, "DaemonSet")
	if len(workloads) == 0 {
		workloads, others = others, nil
	}
	for i, object := range slices.Concat(workloads, others) {
		var template corev1.PodTemplateSpec
		content, _, err := unstructured.NestedMap(object.Object, "spec", "template")
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, &template)
		}
		if err != nil {
			return "", &submission.Problem{Reason: fmt.Sprintf("the %s can't be read: %v", submission.NameOf(object), err)}
		}
		pod := &template.Spec
		for j := range pod.Containers {
			if name, _, _ := strings.Cut(pod.Containers[j].Image, ":"); name == placeholder {
				pod.Containers[j].Image = image
			}
		}
		if len(workloads) == 1 && i == 0 {
			container, err := submission.OperatorOf(pod)
			if err != nil {
				return "", err
			}
			container.Image = image
			user = "system:serviceaccount:" + cmp.Or(object.GetNamespace(), metav1.NamespaceDefault) + ":" + accountOf(pod)
		}
		if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&template); err != nil {
			return "", err
		}
		if err := unstructured.SetNestedMap(object.Object, content, "spec", "template"); err != nil {
			return "", err
		}
	}
	return user, nil
}

// ofKind returns the objects of a kind.
func ofKind(objects []*unstructured.Unstructured, kind string) (found []*unstructured.Unstructured) {
	for _, object := range objects {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	return found
}

// asYAML returns objects as YAML documents.
func asYAML(objects []*unstructured.Unstructured) ([]byte, error) {
	var content bytes.Buffer
	for _, object := range objects {
		one, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("writing the %s: %w", submission.NameOf(object), err)
		}
		content.WriteString("---\n")
		content.Write(one)
	}
	return content.Bytes(), nil
}
