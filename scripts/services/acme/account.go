// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/crypto/acme"
)

// keyBlock is the type of the PEM block with an account's key.
const keyBlock = "EC PRIVATE KEY"

// Account is an account at an ACME server. Anyone who has its key controls the account.
type Account struct {
	// URL is the account's URL, by which the server identifies it.
	URL string

	key    *ecdsa.PrivateKey
	client *acme.Client
}

// Register creates an account with a new key at the server with this directory URL, and agrees to its terms. The client
// must trust the server's certificate.
func Register(ctx context.Context, directory string, client *http.Client) (*Account, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key for the ACME account: %w", err)
	}
	return enter(ctx, directory, client, key)
}

// Resume opens the account with this key, which Key has returned.
func Resume(ctx context.Context, directory string, client *http.Client, key []byte) (*Account, error) {
	block, _ := pem.Decode(key)
	if block == nil || block.Type != keyBlock {
		return nil, errors.New("the key of the ACME account is no PEM block of the type " + keyBlock)
	}
	parsed, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the ACME account: %w", err)
	}
	return enter(ctx, directory, client, parsed)
}

// enter requests an account. For a key that it knows, a server answers with the existing account (RFC 8555, section
// 7.3.1).
func enter(ctx context.Context, directory string, client *http.Client, key *ecdsa.PrivateKey) (*Account, error) {
	c := &acme.Client{Key: key, DirectoryURL: directory, HTTPClient: client, UserAgent: "operator-labs"}
	account, err := c.Register(ctx, &acme.Account{}, acme.AcceptTOS)
	if errors.Is(err, acme.ErrAccountAlreadyExists) {
		account, err = c.GetReg(ctx, "")
	}
	if err != nil {
		return nil, fmt.Errorf("registering an ACME account at %s: %w", directory, err)
	}
	return &Account{URL: account.URI, key: key, client: c}, nil
}

// Key returns the account's private key in PEM.
func (a *Account) Key() ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return nil, fmt.Errorf("writing the key of the ACME account: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// JWK returns the account's public key as a JSON Web Key (RFC 7517). Like real keys, it has one more member than those
// from which a thumbprint is computed (RFC 7638), and its members are in another order.
func (a *Account) JWK() ([]byte, error) {
	public, err := a.key.PublicKey.ECDH()
	if err != nil {
		return nil, fmt.Errorf("reading the public key of the ACME account: %w", err)
	}
	point := public.Bytes() // 4, x, y: the uncompressed form of SEC 1
	half := (len(point) - 1) / 2
	return json.MarshalIndent(struct {
		Use string `json:"use"`
		Kty string `json:"kty"`
		Crv string `json:"crv"`
		X   string `json:"x"`
		Y   string `json:"y"`
	}{
		Use: "sig", Kty: "EC", Crv: "P-256",
		X: base64.RawURLEncoding.EncodeToString(point[1 : 1+half]), Y: base64.RawURLEncoding.EncodeToString(point[1+half:]),
	}, "", "  ")
}

// KeyAuthorization returns the text that proves that the account answers the challenge with this token: the token, a
// dot, and the thumbprint of the account's key (RFC 8555, section 8.1).
func (a *Account) KeyAuthorization(token string) (string, error) {
	return a.client.HTTP01ChallengeResponse(token)
}
