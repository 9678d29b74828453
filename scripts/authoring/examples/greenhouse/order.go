// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"

	"lva.io/operators/scripts/services/acme"
)

// OrderCertificate orders one certificate for these names from the ACME server with this directory. Before the server
// looks, publish must serve the proof below http://NAME, at the path.
func OrderCertificate(
	ctx context.Context, directory string, trusting *http.Client, publish func(path, proof string), names ...string,
) ([]*x509.Certificate, error) {
	account, err := acme.Register(ctx, directory, trusting) // newAccount: a fresh key pair
	if err != nil {
		return nil, err
	}
	order, err := account.Order(ctx, names...) // newOrder: one authorization for each name
	if err != nil {
		return nil, err
	}
	for _, challenge := range order.Challenges {
		proof, err := account.KeyAuthorization(challenge.Token) // TOKEN.THUMBPRINT
		if err != nil {
			return nil, fmt.Errorf("prove %s: %w", challenge.Name, err)
		}
		publish(challenge.Path(), proof)
	}
	authorizations, err := order.Validate(ctx) // {} to each challenge: "I am ready, look"
	if err != nil {
		return nil, err
	}
	for _, authorization := range authorizations {
		if authorization.Status != "valid" { // There is no second attempt: begin with a new order.
			return nil, fmt.Errorf("%s is %s: %s", authorization.Name, authorization.Status, authorization.Problem)
		}
	}
	return order.Finalize(ctx) // a CSR for another key, then the chain
}
