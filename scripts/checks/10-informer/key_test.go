// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/rsa"
	"fmt"
	"math/big"

	"golang.org/x/crypto/ssh"
)

// ordinaryTypes are the types of keys that each ssh-keygen creates, and tokenTypes are the types of keys on hardware
// tokens.
var (
	ordinaryTypes = []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA,
	}
	tokenTypes = []string{ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256}
)

// newKey creates a public key. It is never used to log in, so it needs no private key.
func newKey(algorithm string) (ssh.PublicKey, error) {
	onCurve := func(curve elliptic.Curve) (*ecdsa.PublicKey, error) {
		private, err := ecdsa.GenerateKey(curve, cryptorand.Reader)
		if err != nil {
			return nil, err
		}
		return &private.PublicKey, nil
	}
	var public any
	var err error
	switch algorithm {
	case ssh.KeyAlgoED25519:
		public, _, err = ed25519.GenerateKey(cryptorand.Reader)
	case ssh.KeyAlgoECDSA256:
		public, err = onCurve(elliptic.P256())
	case ssh.KeyAlgoECDSA384:
		public, err = onCurve(elliptic.P384())
	case ssh.KeyAlgoECDSA521:
		public, err = onCurve(elliptic.P521())
	case ssh.KeyAlgoRSA:
		// A parser can't distinguish an odd number from the product of two primes, which takes a while to find. 1024 bits are
		// the minimum of ssh-keygen.
		modulus := make([]byte, 128)
		_, err = cryptorand.Read(modulus)
		modulus[0], modulus[127] = modulus[0]|0x80, modulus[127]|1
		public = &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: 65537}
	case ssh.KeyAlgoSKED25519: // OpenSSH, PROTOCOL.u2f
		var point ed25519.PublicKey
		if point, _, err = ed25519.GenerateKey(cryptorand.Reader); err == nil {
			return ssh.ParsePublicKey(ssh.Marshal(struct {
				Name        string
				Point       []byte
				Application string
			}{algorithm, point, "ssh:"}))
		}
	case ssh.KeyAlgoSKECDSA256:
		var point *ecdsa.PublicKey
		if point, err = onCurve(elliptic.P256()); err == nil {
			var encoded []byte
			if encoded, err = point.Bytes(); err == nil {
				return ssh.ParsePublicKey(ssh.Marshal(struct {
					Name, Curve string
					Point       []byte
					Application string
				}{algorithm, "nistp256", encoded, "ssh:"}))
			}
		}
	default:
		return nil, fmt.Errorf("there is no key of the type %q", algorithm)
	}
	if err != nil {
		return nil, err
	}
	return ssh.NewPublicKey(public)
}
