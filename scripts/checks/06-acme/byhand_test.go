// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"lva.io/operators/scripts/checks/byhand"
	"lva.io/operators/scripts/checks/deployed"
)

const byHandTitle = "<title>By hand</title>"

func reached(v visit) {
	const expected = "every path of both names leads to the site's page, by http and through the Ingress"
	v.accepted(expected, "Deployment", "Service", "Ingress")
	for _, name := range byhand.Names {
		v.eventually(readyLimit, "http://"+name+"/menu", expected, func(a answer) bool {
			return a.status == http.StatusOK && strings.Contains(a.body, byHandTitle)
		})
	}
}

func keyAuthorizations(v visit) {
	for _, c := range v.order.Challenges {
		proof, err := v.account.KeyAuthorization(c.Token)
		v.OK(v.t, "computing a key authorization", err)
		url := "http://" + c.Name + c.Path()
		expected := fmt.Sprintf("%s answers with the token, a dot and the thumbprint of the account's key, "+
			"and nothing else", url)
		// RFC 8555, section 8.3: clients ignore white space at the end.
		trimmed := func(a answer) string { return strings.TrimRight(a.body, " \t\r\n") }
		got := v.answerOf(url, func(a answer) bool { return a.status == http.StatusOK && trimmed(a) == proof })
		switch body := trimmed(got); {
		case got.status == http.StatusOK && body == proof:
		case got.status == http.StatusOK && strings.Contains(body, "<title>"):
			v.Fail(v.t, expected, "the site's own page is the answer: "+got.String(), v.evidence()...)
		case got.status == http.StatusOK && strings.HasPrefix(body, c.Token+"."):
			v.Fail(v.t, expected,
				fmt.Sprintf("behind the token is %q, which is not the thumbprint", strings.TrimPrefix(body, c.Token+".")),
				v.evidence()...)
		default:
			v.Fail(v.t, expected, got.String(), v.evidence()...)
		}
	}
	v.answersNoOthers()
}

// proofLimit is how long a site that serves its page may take to answer its challenges: other Pods may do that, and the
// Ingress controller may be notified of them later.
const proofLimit = 10 * time.Second

// answerOf repeats a request until the answer is good, for some seconds at most, and returns the last answer. Its
// callers report what is wrong with it.
func (v visit) answerOf(url string, good func(answer) bool) (last answer) {
	v.t.Helper()
	for began := time.Now(); ; v.Pause(v.ctx, v.t, deployed.Poll) {
		last = v.ask(v.ctx, url)
		if good(last) || time.Since(began) > proofLimit {
			return last
		}
	}
}

// answersNoOthers requests tokens from both names that are in no order. The page is as good an answer as 404.
func (v visit) answersNoOthers() {
	v.t.Helper()
	thumbprint, err := v.account.KeyAuthorization("")
	v.OK(v.t, "computing a key authorization", err)
	random := rand.New(rand.NewPCG(uint64(v.Seed), 6)) //nolint:gosec // a seed must draw the same each time
	for _, c := range v.order.Challenges {
		for _, token := range strangers(random, c.Token) {
			other := c
			other.Token = token
			url := "http://" + c.Name + other.Path()
			if got := v.ask(v.ctx, url); strings.Contains(got.body, strings.TrimPrefix(thumbprint, ".")) {
				v.Fail(v.t, c.Name+" answers the token of its challenge with a key authorization, and no other token",
					fmt.Sprintf("for %s a key authorization is the answer, and no order has that token", url),
					"the token of its challenge is "+c.Token)
			}
		}
	}
}

// strangers returns tokens that differ from an ordered one: its beginning, the token with one more letter, another one
// of the same length, and the token in capital letters.
func strangers(random *rand.Rand, token string) []string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	another := make([]byte, len(token))
	for i := range another {
		another[i] = letters[random.IntN(len(letters))]
	}
	all := []string{token[:1+random.IntN(len(token)-1)], token + string(another[0]), string(another)}
	if turned := strings.ToUpper(token); turned != token {
		all = append(all, turned)
	}
	return all
}

func authorized(v visit) {
	const expected = "the ACME server finds both proofs, and issues the certificate"
	authorizations, err := v.order.Validate(v.ctx)
	v.OK(v.t, "asking the ACME server to validate", err)
	for _, a := range authorizations {
		if a.Status != "valid" {
			v.Fail(v.t, expected, fmt.Sprintf("the authorization of %s is %s: %s", a.Name, a.Status, a.Problem), v.evidence()...)
		}
	}
	chain, err := v.order.Finalize(v.ctx)
	v.OK(v.t, "finalizing the order", err)
	for _, name := range byhand.Names {
		if err := chain[0].VerifyHostname(name); err != nil {
			v.Fail(v.t, expected, err.Error(), "none")
		}
	}
}
