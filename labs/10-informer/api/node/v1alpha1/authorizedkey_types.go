// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The types of conditions, and their reasons.
const (
	// Accepted says whether the key is allowed in an authorized_keys file. It is about the object and not about a node:
	// the controllers of all nodes come to the same result.
	Accepted = "Accepted"

	// ReasonValid is why a key is accepted.
	ReasonValid = "ValidKey"
	// ReasonInvalid is why a key is not.
	ReasonInvalid = "InvalidKey"
)

// AuthorizedKeyData is what an AuthorizedKey asks for.
type AuthorizedKeyData struct {
	// Key is one SSH public key, as the first two words of an id_ed25519.pub have it: its type and the key in base64. A
	// comment may follow.
	// +kubebuilder:validation:MaxLength=16384
	Key string `json:"key"`
}

// AuthorizedKeyStatus is the observed state of an AuthorizedKey.
type AuthorizedKeyStatus struct {
	// Conditions has one of the type Accepted.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AuthorizedKey is an SSH key by which its owner may log in to every node.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AuthorizedKey struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Data   AuthorizedKeyData   `json:"data"`
	Status AuthorizedKeyStatus `json:"status,omitempty"`
}

// AuthorizedKeyList is a list of AuthorizedKeys.
//
// +kubebuilder:object:root=true
type AuthorizedKeyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AuthorizedKey `json:"items"`
}
