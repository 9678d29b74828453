// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package local implements a stage that runs operators as processes of this machine. Each operator has its account's
// kubeconfig and ports that no other operator has at the same time, and the API server reaches it by one of several
// routes.
package local
