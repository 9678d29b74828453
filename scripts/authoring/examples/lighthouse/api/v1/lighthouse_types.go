// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Lighthouse is the hub of the conversions.
//
// +kubebuilder:object:root=true
type Lighthouse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              LighthouseSpec   `json:"spec"`
	Status            LighthouseStatus `json:"status,omitempty"`
}

// Hub marks this version as the one that all others are converted to and from.
func (*Lighthouse) Hub() {}

// LighthouseSpec is the desired behaviour of a lighthouse.
type LighthouseSpec struct {
	// flashSeconds is the time between two flashes. Without it the light does not flash.
	FlashSeconds *int32 `json:"flashSeconds,omitempty"`
}

// LighthouseStatus is what was observed.
type LighthouseStatus struct {
	// lit reports whether the lamp burns.
	Lit bool `json:"lit,omitempty"`
}
