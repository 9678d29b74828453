// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1alpha

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LlamaSpec is the desired state of a llama.
type LlamaSpec struct {
	// Weight is in kilograms, 0 or more. A float32 could not hold 0.1: it would come back as 0.10000000149011612.
	Weight float64 `json:"weight"`
	// Height is in metres, 0 or more.
	Height float64 `json:"height"`
}

// SwaggerDoc is what `kubectl explain llama.spec` shows of each field; "" is the type itself.
func (LlamaSpec) SwaggerDoc() map[string]string {
	return map[string]string{
		"":       "LlamaSpec is the desired state of a llama.",
		"weight": "Weight of the llama in kilograms, 0 or more.",
		"height": "Height of the llama in metres, 0 or more.",
	}
}

// Llama is an animal of the farm. It is stored by this server.
// +kubebuilder:object:root=true
type Llama struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec LlamaSpec `json:"spec"`
}

// SwaggerDoc is what `kubectl explain llama` shows.
func (Llama) SwaggerDoc() map[string]string {
	return map[string]string{
		"":         "Llama is an animal of the farm.",
		"metadata": "Standard object metadata.",
		"spec":     "The desired state of the llama.",
	}
}

// LlamaList is several llamas.
// +kubebuilder:object:root=true
type LlamaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Llama `json:"items"`
}

// SwaggerDoc describes the list in OpenAPI.
func (LlamaList) SwaggerDoc() map[string]string {
	return map[string]string{
		"":         "LlamaList is several llamas.",
		"metadata": "Standard list metadata.",
		"items":    "The llamas.",
	}
}
