// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package certificates makes certificate authorities, and the certificates of servers and clients on this machine; it
// keeps none, and renews none.
package certificates
