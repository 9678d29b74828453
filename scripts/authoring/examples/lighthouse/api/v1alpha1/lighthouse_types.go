// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Lighthouse is a lighthouse as its first users write it.
//
// +kubebuilder:object:root=true
type Lighthouse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              LighthouseSpec   `json:"spec"`
	Status            LighthouseStatus `json:"status,omitempty"`
}

// LighthouseSpec is the desired behaviour of a lighthouse.
type LighthouseSpec struct {
	// period is the time between two flashes, in seconds. Without it the light does not flash.
	Period *int32 `json:"period,omitempty"`
}

// LighthouseStatus is what was observed.
type LighthouseStatus struct {
	// lit reports whether the lamp burns.
	Lit bool `json:"lit,omitempty"`
}
