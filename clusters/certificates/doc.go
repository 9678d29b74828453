// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package certificates creates certificate authorities, and issues certificates for servers and clients on this
// machine. It does not store or renew them.
package certificates
