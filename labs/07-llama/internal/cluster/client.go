// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cluster

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// scheme has the Go types that this program needs. The scheme in client-go/kubernetes has all types of Kubernetes, and
// a program that imports it contains them, with a client for each: twice the size, and twice the time to link it.
var scheme = runtime.NewScheme()

func init() {
	scheme.AddKnownTypes(corev1.SchemeGroupVersion,
		&corev1.ConfigMap{}, &corev1.ConfigMapList{}, &corev1.Namespace{}, &corev1.Pod{}, &corev1.PodList{})
	scheme.AddKnownTypes(authorizationv1.SchemeGroupVersion, &authorizationv1.SubjectAccessReview{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion) // the events of a watch
}

// Client returns a client for the kinds of one group and version.
func Client(config *rest.Config, version schema.GroupVersion) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &version
	config.APIPath = "/apis"
	if version.Group == "" {
		config.APIPath = "/api" // the oldest group has a path of its own
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", version, err)
	}
	return client, nil
}
