// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package controller gives each CloudInstance one instance in the cloud, and never two: whatever is lost, late or
// killed in between.
package controller
