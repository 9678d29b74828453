// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package trust finds out who asks, and whether they may. It believes nobody but the API server's front proxy, and decides
// nothing itself: the API server knows the roles, and is asked.
package trust
