// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

// The operator's account, as kubebuilder's manifests would create it.
const (
	AccountNamespace = "operator-system"
	AccountName      = "controller-manager"
	// User is the name by which the API server, and so the audit log, knows the operator.
	User = "system:serviceaccount:" + AccountNamespace + ":" + AccountName
)
