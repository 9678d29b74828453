// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Client looks into a freezer. It is for checks: the operator's own client is part of the lab.
type Client struct {
	url  string
	http http.Client
}

// NewClient is a client of the freezer at a URL, as http://127.0.0.1:8080. It waits as long as the context of a call says.
func NewClient(url string) *Client { return &Client{url: strings.TrimSuffix(url, "/")} }

// Stock is how much there is of everything that ever moved, sorted by kind and name.
func (c *Client) Stock(ctx context.Context) ([]Item, error) {
	answer, err := ask[stock](ctx, c, http.MethodGet, "/v1/stock", nil)
	return answer.Items, err
}

// Out is what an owner has taken and not returned, in the order in which it was taken.
func (c *Client) Out(ctx context.Context, name string) ([]Ingredient, error) {
	answer, err := ask[owner](ctx, c, http.MethodGet, "/v1/owners/"+url.PathEscape(name), nil)
	return answer.Out, err
}

// Movements are those of an owner, or all if the owner is empty, in the order in which they were booked.
func (c *Client) Movements(ctx context.Context, owner string) ([]Movement, error) {
	answer, err := ask[movements](ctx, c, http.MethodGet, "/v1/movements?owner="+url.QueryEscape(owner), nil)
	return answer.Movements, err
}

// Book books a movement, and returns it as it is booked. To book the same again under the same id changes nothing.
func (c *Client) Book(ctx context.Context, m Movement) (Movement, error) {
	return ask[Movement](ctx, c, http.MethodPut, "/v1/movements/"+url.PathEscape(m.ID), m)
}

// Error is an answer of the freezer that is none of success.
type Error struct{ Problem }

func (e *Error) Error() string { return fmt.Sprintf("the freezer answers %d: %s", e.Status, e.Detail) }

func ask[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var answer T
	fail := func(err error) (T, error) {
		return answer, fmt.Errorf("asking the freezer (%s %s): %w", method, path, err)
	}
	sent, err := json.Marshal(body)
	if err != nil {
		return fail(err)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(sent))
	if err != nil {
		return fail(err)
	}
	if body == nil {
		request.Body, request.ContentLength = nil, 0
	} else {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fail(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		refused := &Error{Problem{Detail: response.Status, Status: response.StatusCode}}
		_ = json.NewDecoder(response.Body).Decode(&refused.Problem) // what is no problem+json still has its status
		return fail(refused)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fail(err)
	}
	return answer, nil
}
