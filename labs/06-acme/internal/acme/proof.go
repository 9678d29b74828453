// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme

import (
	"encoding/json"
	"fmt"
)

// required are the members that define a public key, by the type of the key (RFC 7638, section 3.2). A key may have
// others, such as a name or a use, which do not count.
var required = map[string][]string{
	"EC":  {"crv", "kty", "x", "y"},
	"RSA": {"e", "kty", "n"},
}

// Thumbprint identifies a public key, given as a JSON Web Key: every program computes the same one (RFC 7638,
// section 3).
func Thumbprint(jwk []byte) (string, error) {
	var key map[string]string
	if err := json.Unmarshal(jwk, &key); err != nil {
		return "", fmt.Errorf("reading the account's key: %w", err)
	}
	members, ok := required[key["kty"]]
	if !ok {
		return "", fmt.Errorf("the account's key has the type %q: only EC and RSA are known here", key["kty"])
	}
	// TODO(lab): 1. Write the required members as JSON, sorted by name and without spaces. The thumbprint is the
	// SHA-256 hash of that, in base64 for URLs, without padding.
	return "", fmt.Errorf("the thumbprint of a key with the members %v is not computed yet", members)
}

// KeyAuthorization proves that the owner of an account answers a challenge: the challenge's token, a dot, and the
// thumbprint of the account's key (RFC 8555, section 8.1).
func KeyAuthorization(token, thumbprint string) string {
	// TODO(lab): 2. Put token and thumbprint together.
	return ""
}
