// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme

import (
	"os"
	"path/filepath"
	"testing"
)

// exampleKey is the one in RFC 7638, section 3.1.
const exampleKey = `{
  "kty": "RSA",
  "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
  "e": "AQAB",
  "alg": "RS256",
  "kid": "2011-04-29"
}`

// exampleThumbprint is what the RFC says that it is.
const exampleThumbprint = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"

func TestThumbprint(t *testing.T) {
	t.Skip("TODO(lab): 1. remove this line when you begin with Thumbprint; then: make test")
	got, err := Thumbprint([]byte(exampleKey))
	if err != nil {
		t.Fatal(err)
	}
	if got != exampleThumbprint {
		t.Errorf("the thumbprint is %s, and RFC 7638 says %s", got, exampleThumbprint)
	}
}

func TestKeyAuthorization(t *testing.T) {
	t.Skip("TODO(lab): 2. remove this line when you begin with KeyAuthorization; then: make test")
	if got, want := KeyAuthorization("token", "thumbprint"), "token.thumbprint"; got != want {
		t.Errorf("the key authorization is %q, want %q", got, want)
	}
}

func TestKeyOfAnUnknownType(t *testing.T) {
	if _, err := Thumbprint([]byte(`{"kty": "OKP"}`)); err == nil {
		t.Error("a key of an unknown type has a thumbprint")
	}
}

func TestNoOrder(t *testing.T) {
	order, err := ReadOrder(t.TempDir())
	if err != nil || order.Has("") {
		t.Errorf("an empty folder is the order %+v, error %v; want none", order, err)
	}
}

func TestReadOrder(t *testing.T) {
	t.Skip("TODO(lab): 1. remove this line when you begin with Thumbprint; then: make test")
	folder := t.TempDir()
	write(t, filepath.Join(folder, accountFile), exampleKey)
	write(t, filepath.Join(folder, tokensFile), "vanilla.lab.test one\nchocolate.lab.test two\n")
	order, err := ReadOrder(folder)
	if err != nil {
		t.Fatal(err)
	}
	if order.Thumbprint != exampleThumbprint || !order.Has("one") || !order.Has("two") || order.Has("vanilla.lab.test") {
		t.Errorf("the order is %+v", order)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
