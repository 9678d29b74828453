// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +kubebuilder:object:root=true

// Workspace is the operator's memory about the CloudInstance of the same name and namespace. It is neither spec nor
// status: only the operator writes it, and its contents can't be observed anywhere else.
type Workspace struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is what every object has: a name, labels, the time when it was created.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// nonce is the client token of a launch of which the operator does not know yet whether it happened. It is written
	// before the launch, and removed when the result is recorded.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Nonce string `json:"nonce,omitempty"`

	// instanceID is the result: the instance that belongs to the CloudInstance.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	InstanceID string `json:"instanceID,omitempty"`
}

// +kubebuilder:object:root=true

// WorkspaceList is the API server's answer to a list of Workspaces.
type WorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Workspace `json:"items"`
}

func init() {
	SchemeBuilder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(SchemeGroupVersion, &Workspace{}, &WorkspaceList{})
		return nil
	})
}
