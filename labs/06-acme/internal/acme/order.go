// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files of an order: the account's public key as a JSON Web Key, and a line for each name, with the name and its
// token.
const (
	accountFile = "account.jwk"
	tokensFile  = "tokens"
)

// Order is what has to be proved.
type Order struct {
	// Thumbprint is that of the account's key.
	Thumbprint string
	// Tokens are those of the challenges.
	Tokens []string
}

// ReadOrder reads the order in a folder. Where there is none, nothing has to be proved.
func ReadOrder(folder string) (Order, error) {
	jwk, err := os.ReadFile(filepath.Join(folder, accountFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Order{}, nil
	} else if err != nil {
		return Order{}, fmt.Errorf("reading the order: %w", err)
	}
	thumbprint, err := Thumbprint(jwk)
	if err != nil {
		return Order{}, err
	}
	lines, err := os.ReadFile(filepath.Join(folder, tokensFile))
	if err != nil {
		return Order{}, fmt.Errorf("reading the order: %w", err)
	}
	order := Order{Thumbprint: thumbprint}
	for line := range strings.Lines(string(lines)) {
		if fields := strings.Fields(line); len(fields) == 2 {
			order.Tokens = append(order.Tokens, fields[1])
		}
	}
	return order, nil
}

// Has reports whether the order has a challenge with this token.
func (o Order) Has(token string) bool { return slices.Contains(o.Tokens, token) }
