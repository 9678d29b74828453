// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Ready is the type of the condition that says whether the instance runs.
const Ready = "Ready"

// CloudInstanceSpec is the desired state of an instance: people write it, the operator reads it. An instance is
// launched from a type and an image, or an existing one is imported by its ID. No object changes from one to the other:
// its Workspace would name an instance that may belong to another object, and then it could not be deleted. The rules
// of the fields do not prevent that, since the API server evaluates a rule with oldSelf only for a field that exists
// before and after the update.
// +kubebuilder:validation:XValidation:rule="has(self.instanceID) != has(self.type) && has(self.type) == has(self.image)",message="either type and image, or instanceID of an instance that exists"
// +kubebuilder:validation:XValidation:rule="has(self.instanceID) == has(oldSelf.instanceID)",message="an instance stays launched or imported: create another CloudInstance"
type CloudInstanceSpec struct {
	// type is how large the instance is.
	// +optional
	// +kubebuilder:validation:Enum=small;medium;large
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an instance keeps its type: create another CloudInstance"
	Type string `json:"type,omitempty"`

	// image is what the instance runs.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an instance keeps its image: create another CloudInstance"
	Image string `json:"image,omitempty"`

	// instanceID imports an instance that exists: from then on it belongs to this CloudInstance, and ends with it.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9-]{1,64}$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an imported instance stays the same: create another CloudInstance"
	InstanceID string `json:"instanceID,omitempty"`

	// paused lets the operator leave everything in the cloud as it is, also when the CloudInstance is deleted.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// CloudInstanceStatus is what the operator has observed: the operator writes it, people read it. The operator itself
// never reads it: its memory is the Workspace.
type CloudInstanceStatus struct {
	// instanceID is the cloud's name for the instance.
	// +optional
	InstanceID string `json:"instanceID,omitempty"`

	// state is what the cloud says of it: pending, running or terminated.
	// +optional
	State string `json:"state,omitempty"`

	// conditions say how the instance is doing.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Instance",type=string,JSONPath=`.status.instanceID`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// CloudInstance is a machine in the cloud.
type CloudInstance struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is what every object has: a name, labels, the time when it was created.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state of the CloudInstance.
	// +required
	Spec CloudInstanceSpec `json:"spec"`

	// status is what the operator has observed.
	// +optional
	Status CloudInstanceStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// CloudInstanceList is the API server's answer to a list of CloudInstances.
type CloudInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []CloudInstance `json:"items"`
}

func init() {
	SchemeBuilder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(SchemeGroupVersion, &CloudInstance{}, &CloudInstanceList{})
		return nil
	})
}
