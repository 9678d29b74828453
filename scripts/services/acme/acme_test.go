// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/services/acme"
	"lva.io/operators/scripts/services/acme/acmetest"
)

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

var names = []string{"chocolate.example.test", "vanilla.example.test"}

func TestOrderForTwoNames(t *testing.T) {
	ctx := limited(t)
	proofs := acmetest.Site{}
	directory, client := acmetest.Start(t, proofs)
	account, err := acme.Register(ctx, directory, client)
	if err != nil {
		t.Fatal(err)
	}
	order, err := account.Order(ctx, names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range order.Challenges {
		if proofs[c.Path()], err = account.KeyAuthorization(c.Token); err != nil {
			t.Fatal(err)
		}
	}
	authorizations, err := order.Validate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range authorizations {
		if a.Status != "valid" || a.Problem != "" {
			t.Errorf("%s is %s: %s", a.Name, a.Status, a.Problem)
		}
	}
	began := time.Now()
	chain, err := order.Finalize(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("finalized in %s", time.Since(began))
	slices.Sort(chain[0].DNSNames)
	if want := slices.Sorted(slices.Values(names)); !slices.Equal(chain[0].DNSNames, want) {
		t.Errorf("the certificate is for %v, want %v", chain[0].DNSNames, want)
	}
	pool := x509.NewCertPool()
	pool.AddCert(chain[len(chain)-1])
	if len(chain) < 2 {
		t.Errorf("the chain has %d certificates, want the leaf's issuer as well", len(chain))
	}
}

func TestWrongChallengeResponseIsReported(t *testing.T) {
	ctx := limited(t)
	directory, client := acmetest.Start(t, acmetest.Site{})
	account, err := acme.Register(ctx, directory, client)
	if err != nil {
		t.Fatal(err)
	}
	order, err := account.Order(ctx, names[0])
	if err != nil {
		t.Fatal(err)
	}
	authorizations, err := order.Validate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := authorizations[0]; got.Status != "invalid" ||
		!strings.Contains(got.Problem, "urn:ietf:params:acme:error:unauthorized") ||
		!strings.Contains(got.Problem, "404") {
		t.Errorf("authorization = %+v, want an invalid one with the server's problem", got)
	}
	if _, err := order.Finalize(ctx); err == nil || !strings.Contains(err.Error(), "the order is invalid") {
		t.Errorf("Finalize() of an invalid order: error = %v, want one with that reason", err)
	}
}

func TestAccountAndOrderCanBeReopened(t *testing.T) {
	ctx := limited(t)
	proofs := acmetest.Site{}
	directory, client := acmetest.Start(t, proofs)
	account, err := acme.Register(ctx, directory, client)
	if err != nil {
		t.Fatal(err)
	}
	order, err := account.Order(ctx, names...)
	if err != nil {
		t.Fatal(err)
	}
	key, err := account.Key()
	if err != nil {
		t.Fatal(err)
	}
	again, err := acme.Resume(ctx, directory, client, key)
	if err != nil {
		t.Fatal(err)
	}
	if again.URL != account.URL {
		t.Errorf("account = %s, want %s", again.URL, account.URL)
	}
	opened, err := again.Open(ctx, order.URL)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range opened.Challenges {
		if c.Token != order.Challenges[i].Token || c.Name != order.Challenges[i].Name {
			t.Errorf("challenge %d is %s of %s, want %s of %s",
				i, c.Token, c.Name, order.Challenges[i].Token, order.Challenges[i].Name)
		}
		if proofs[c.Path()], err = again.KeyAuthorization(c.Token); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := opened.Validate(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := opened.Finalize(ctx); err != nil {
		t.Errorf("Finalize() of a reopened order: %v", err)
	}
	if _, err := acme.Resume(ctx, directory, client, []byte("no key")); err == nil {
		t.Error("an account was opened without a key")
	}
}

func TestKeyAuthorizationUsesTheJWK(t *testing.T) {
	ctx := limited(t)
	directory, client := acmetest.Start(t, acmetest.Site{})
	account, err := acme.Register(ctx, directory, client)
	if err != nil {
		t.Fatal(err)
	}
	content, err := account.JWK()
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]string
	if err := json.Unmarshal(content, &members); err != nil {
		t.Fatal(err)
	}
	proof, err := account.KeyAuthorization("token")
	if err != nil {
		t.Fatal(err)
	}
	if want := "token." + thumbprint(members); proof != want {
		t.Errorf("key authorization = %s, want %s, for %s", proof, want, content)
	}
}
