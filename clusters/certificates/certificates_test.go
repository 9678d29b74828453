// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
)

// leaf reads a pair as a server does.
func leaf(t *testing.T, pair Pair, err error) *x509.Certificate {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	both, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return both.Leaf
}

func TestCertificateIsValidOnlyForItsPurpose(t *testing.T) {
	t.Parallel()
	authority, err := NewAuthority("ours")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority("ours") // of the same name
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Server("webhook", []string{"webhook.operator-system.svc"}, net.IPv4(127, 0, 0, 1))
	server := leaf(t, pair, err)
	pair, err = authority.Client("sundae", "ices", "desserts")
	client := leaf(t, pair, err)
	if client.Subject.CommonName != "sundae" || len(client.Subject.Organization) != 2 {
		t.Errorf("client subject = %s", client.Subject)
	}
	if server.SerialNumber.Cmp(client.SerialNumber) == 0 {
		t.Error("two certificates have the same serial number")
	}
	for _, test := range []struct {
		name        string
		certificate *x509.Certificate
		authority   *Authority
		host        string
		usage       x509.ExtKeyUsage
		good        bool
	}{
		{"the server by its name", server, authority, "webhook.operator-system.svc", x509.ExtKeyUsageServerAuth, true},
		{"the server by its address", server, authority, "127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		{"the server by another name", server, authority, "webhook.default.svc", x509.ExtKeyUsageServerAuth, false},
		{"the server as a client", server, authority, "", x509.ExtKeyUsageClientAuth, false},
		{"the server under another authority", server, other, "127.0.0.1", x509.ExtKeyUsageServerAuth, false},
		{"the client", client, authority, "", x509.ExtKeyUsageClientAuth, true},
		{"the client as a server", client, authority, "", x509.ExtKeyUsageServerAuth, false},
	} {
		trusted := x509.NewCertPool()
		if !trusted.AppendCertsFromPEM(test.authority.PEM) {
			t.Fatal("the authority has no certificate")
		}
		_, err := test.certificate.Verify(x509.VerifyOptions{
			Roots: trusted, DNSName: test.host,
			KeyUsages: []x509.ExtKeyUsage{test.usage},
		})
		if (err == nil) != test.good {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
