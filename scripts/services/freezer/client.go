// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer

import (
	"context"
	"net/http"
	"net/url"

	"lva.io/operators/scripts/services/service"
)

// Client reads the state of a freezer and books movements. It is for checks: the operator's own client is part of the
// lab.
type Client struct{ service *service.Client }

// NewClient returns a client of the freezer at a URL, such as http://127.0.0.1:8080. It waits as long as the context of
// a call allows.
func NewClient(url string) *Client { return &Client{service.NewClient(Service, url)} }

// Stock returns how much there is of everything that ever moved, sorted by kind and name.
func (c *Client) Stock(ctx context.Context) ([]Item, error) {
	answer, err := service.Ask[stock](ctx, c.service, http.MethodGet, "/v1/stock", nil)
	return answer.Items, err
}

// Out returns what an owner has taken and not returned, in the order in which it was taken.
func (c *Client) Out(ctx context.Context, name string) ([]Ingredient, error) {
	answer, err := service.Ask[owner](ctx, c.service, http.MethodGet, "/v1/owners/"+url.PathEscape(name), nil)
	return answer.Out, err
}

// Movements returns the movements of an owner, or all if the owner is empty, in the order in which they were booked.
func (c *Client) Movements(ctx context.Context, owner string) ([]Movement, error) {
	answer, err := service.Ask[movements](ctx, c.service, http.MethodGet,
		"/v1/movements?owner="+url.QueryEscape(owner), nil)
	return answer.Movements, err
}

// Book books a movement, and returns it as it was booked. Booking the same movement again under the same id changes
// nothing.
func (c *Client) Book(ctx context.Context, m Movement) (Movement, error) {
	return service.Ask[Movement](ctx, c.service, http.MethodPut, "/v1/movements/"+url.PathEscape(m.ID), m)
}

// Error is an answer of the freezer that does not report success.
type Error = service.Error
