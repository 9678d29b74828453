// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/acme"
)

// pollEvery is the time between two queries of a status, because ACME has no watch.
const pollEvery = 200 * time.Millisecond

// Order is an order for one certificate.
type Order struct {
	// URL is the order's URL, with which Account.Open finds it again.
	URL string
	// Challenges are the challenges to answer, one for each name, sorted by name.
	Challenges []Challenge

	account *Account
}

// Challenge is the HTTP-01 challenge of a name.
type Challenge struct {
	// Name is the DNS name whose control is to be proved.
	Name string
	// Token is the random token that the server has chosen for it.
	Token string

	authorization string
	challenge     *acme.Challenge
}

// Path returns the path at which the server looks for the key authorization, at port 80 of the name.
func (c Challenge) Path() string { return "/.well-known/acme-challenge/" + c.Token }

// Authorization is the server's decision about a name.
type Authorization struct {
	Name string
	// Status is as in RFC 8555, section 7.1.6: pending, valid, invalid, …
	Status string
	// Problem is the reason why the name is invalid, with the type of RFC 8555, section 6.7. It is empty otherwise.
	Problem string
}

// Order orders a certificate for these names.
func (a *Account) Order(ctx context.Context, names ...string) (*Order, error) {
	order, err := a.client.AuthorizeOrder(ctx, acme.DomainIDs(names...))
	if err != nil {
		return nil, fmt.Errorf("ordering a certificate for %v: %w", names, err)
	}
	return a.open(ctx, order.URI, order.AuthzURLs)
}

// Open finds an order again.
func (a *Account) Open(ctx context.Context, url string) (*Order, error) {
	order, err := a.client.GetOrder(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("reading the order %s: %w", url, err)
	}
	// The answer has the order's own address only when the order is created.
	return a.open(ctx, url, order.AuthzURLs)
}

func (a *Account) open(ctx context.Context, url string, authorizations []string) (*Order, error) {
	order := &Order{URL: url, account: a}
	for _, url := range authorizations {
		authorization, err := a.client.GetAuthorization(ctx, url)
		if err != nil {
			return nil, fmt.Errorf("reading the authorization %s: %w", url, err)
		}
		challenge, err := http01(authorization)
		if err != nil {
			return nil, err
		}
		order.Challenges = append(order.Challenges, Challenge{
			Name: authorization.Identifier.Value, Token: challenge.Token, authorization: url, challenge: challenge,
		})
	}
	slices.SortFunc(order.Challenges, func(a, b Challenge) int { return strings.Compare(a.Name, b.Name) })
	return order, nil
}

func http01(authorization *acme.Authorization) (*acme.Challenge, error) {
	for _, challenge := range authorization.Challenges {
		if challenge.Type == "http-01" {
			return challenge, nil
		}
	}
	return nil, fmt.Errorf("the server offers no http-01 challenge for %s", authorization.Identifier.Value)
}

// Validate requests the validation of all challenges, and waits until it has decided on each of them. It returns no
// error for a name that is invalid. A decision about a challenge is final, so another try needs another order.
func (o *Order) Validate(ctx context.Context) ([]Authorization, error) {
	for _, c := range o.Challenges {
		if c.challenge.Status != acme.StatusPending {
			continue
		}
		if _, err := o.account.client.Accept(ctx, c.challenge); err != nil {
			return nil, fmt.Errorf("asking the server to validate %s: %w", c.Name, err)
		}
	}
	authorizations := make([]Authorization, len(o.Challenges))
	for i, c := range o.Challenges {
		err := poll(ctx, "the server to validate "+c.Name, func() (done bool, err error) {
			authorizations[i], err = o.authorization(ctx, c)
			return authorizations[i].Status != acme.StatusPending, err
		})
		if err != nil {
			return nil, err
		}
	}
	return authorizations, nil
}

func (o *Order) authorization(ctx context.Context, c Challenge) (Authorization, error) {
	read, err := o.account.client.GetAuthorization(ctx, c.authorization)
	if err != nil {
		return Authorization{}, fmt.Errorf("reading the authorization of %s: %w", c.Name, err)
	}
	authorization := Authorization{Name: c.Name, Status: read.Status}
	challenge, err := http01(read)
	if err != nil {
		return authorization, err
	}
	if problem, ok := errors.AsType[*acme.Error](challenge.Error); ok {
		authorization.Problem = problem.ProblemType + ": " + problem.Detail
	} else if challenge.Error != nil {
		authorization.Problem = challenge.Error.Error()
	}
	return authorization, nil
}

// Finalize requests the certificate, for a new key, and waits for it. All names must be valid. The leaf comes first.
func (o *Order) Finalize(ctx context.Context) ([]*x509.Certificate, error) {
	client := o.account.client
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key for the certificate: %w", err)
	}
	names := make([]string, len(o.Challenges))
	for i, c := range o.Challenges {
		names[i] = c.Name
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, key)
	if err != nil {
		return nil, fmt.Errorf("generating a certificate request: %w", err)
	}
	order, err := client.GetOrder(ctx, o.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the order %s: %w", o.URL, err)
	}
	// CreateOrderCert waits as well. But if the server answers that the order is processing, without the order's own
	// address (as Pebble does), CreateOrderCert polls the wrong address. So only its request counts. Its error counts only
	// if the order is neither processing nor valid.
	_, _, finalizing := client.CreateOrderCert(ctx, order.FinalizeURL, request, true)
	err = poll(ctx, "the server to issue the certificate", func() (done bool, err error) {
		order, err = client.GetOrder(ctx, o.URL)
		if err != nil {
			return false, fmt.Errorf("reading the order %s: %w", o.URL, err)
		}
		if order.Status != acme.StatusProcessing && order.Status != acme.StatusValid {
			return false, errors.Join(fmt.Errorf("the order is %s, and not processing or valid", order.Status), finalizing)
		}
		return order.Status == acme.StatusValid, nil
	})
	if err != nil {
		return nil, fmt.Errorf("finalizing the order for %v: %w", names, err)
	}
	chain, err := client.FetchCert(ctx, order.CertURL, true)
	if err != nil {
		return nil, fmt.Errorf("downloading the certificate for %v: %w", names, err)
	}
	certificates := make([]*x509.Certificate, len(chain))
	for i, der := range chain {
		if certificates[i], err = x509.ParseCertificate(der); err != nil {
			return nil, fmt.Errorf("reading the certificate for %v: %w", names, err)
		}
	}
	return certificates, nil
}

// poll calls ask again and again until it is done.
func poll(ctx context.Context, what string, ask func() (done bool, err error)) error {
	ticks := time.NewTicker(pollEvery)
	defer ticks.Stop()
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-ticks.C:
		}
	}
}
