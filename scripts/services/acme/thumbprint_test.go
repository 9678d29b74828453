// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// thumbprint returns the thumbprint of RFC 7638, section 3, for a key of an elliptic curve, written down from the RFC.
func thumbprint(members map[string]string) string {
	canonical := fmt.Sprintf(`{"crv":%q,"kty":%q,"x":%q,"y":%q}`,
		members["crv"], members["kty"], members["x"], members["y"])
	sum := sha256.Sum256([]byte(canonical))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
