// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package controller runs a cow for each Lolcow: it makes a Deployment and a Service, keeps them as they should be, and
// reports how they are. It does not delete them: they have an owner, so the garbage collector does.
package controller
