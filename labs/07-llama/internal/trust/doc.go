// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package trust authenticates and authorizes requests. It trusts only the API server's front proxy, and decides nothing
// itself: it asks the API server, which knows the roles.
package trust
