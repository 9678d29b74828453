// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lighthouse

// BeaconSpec is wrong on purpose: a user's zero is lost when Go writes the object, and the default is filled in.
//
//lab:begin zero
type BeaconSpec struct {
	// +optional
	// +default=1
	Replicas int32 `json:"replicas,omitempty"`
}

//lab:end

// PointerSpec distinguishes zero from nothing.
type PointerSpec struct {
	// +optional
	// +default=1
	//lab:begin pointer
	Replicas *int32 `json:"replicas,omitempty"`
	//lab:end
}
