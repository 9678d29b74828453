// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Lifetime is how long a certificate is valid: long enough for a playground that runs for a whole course.
const Lifetime = 365 * 24 * time.Hour

// Authority is a certificate authority. Its key lives in memory only. To issue certificates later, create another
// authority.
type Authority struct {
	// PEM is the authority's certificate.
	PEM []byte

	certificate *x509.Certificate
	key         crypto.Signer
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Certificate, Key []byte }

// NewAuthority creates an authority with a name.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of the certificate authority %s: %w", name, err)
	}
	template := newTemplate(name)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("generating the certificate authority %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("generating the certificate authority %s: %w", name, err)
	}
	return &Authority{PEM: block("CERTIFICATE", der), certificate: certificate, key: key}, nil
}

// ReadAuthority reads an authority's certificate and key from PEM.
func ReadAuthority(certificate, key []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate authority: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("reading a certificate authority: the certificate of %s is not one", pair.Leaf.Subject)
	}
	return &Authority{PEM: certificate, certificate: pair.Leaf, key: signer}, nil
}

// Server issues the certificate of a server with these host names and addresses.
func (a *Authority) Server(name string, hosts []string, addresses ...net.IP) (Pair, error) {
	template := newTemplate(name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames, template.IPAddresses = hosts, addresses
	return a.sign(template)
}

// Client issues a certificate that authenticates a user and the user's groups to an API server.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	template := newTemplate(user)
	template.Subject.Organization = groups
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

func (a *Authority) sign(template *x509.Certificate) (Pair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, keyPEM, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return Pair{Certificate: block("CERTIFICATE", der), Key: keyPEM}, nil
}

// NewKey creates a key pair without a certificate.
func NewKey() (private, public []byte, err error) {
	key, private, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a public key: %w", err)
	}
	return private, block("PUBLIC KEY", der), nil
}

// newKey creates an elliptic-curve key. An RSA key would take a tenth of a second.
func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return key, block("EC PRIVATE KEY", der), nil
}

func newTemplate(name string) *x509.Certificate {
	// The serial number is random. The certificate is valid from a minute ago, because clocks may be set while we start.
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(Lifetime),
	}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
