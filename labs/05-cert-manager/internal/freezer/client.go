// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Kind is what an ingredient is used for.
type Kind string

// The kinds of ingredients.
const (
	Topping Kind = "topping"
	Flavour Kind = "flavour"
)

// Ingredient is one portion of something. Two values are equal if they are the same ingredient.
type Ingredient struct {
	Kind Kind   `json:"kind"`
	Name string `json:"ingredient"`
}

// Direction says whether an ingredient is taken out of the freezer or returned.
type Direction string

// The directions, as seen from the freezer.
const (
	Out Direction = "out"
	In  Direction = "in"
)

// Movement is an ingredient that an owner takes out or brings back in.
type Movement struct {
	Owner     string    `json:"owner"`
	Direction Direction `json:"direction"`
	Ingredient
}

// Client is how the operator talks to the freezer.
type Client struct {
	url  string
	http http.Client
}

// NewClient makes a client of the freezer at a URL. Patience is how long it waits for an answer; 0 is for ever.
func NewClient(url string, patience time.Duration) *Client {
	return &Client{url: strings.TrimSuffix(url, "/"), http: http.Client{Timeout: patience}}
}

// Outstanding lists what an owner has taken out and not brought back, in the order in which it was taken.
func (c *Client) Outstanding(ctx context.Context, owner string) ([]Ingredient, error) {
	var account struct {
		Out []Ingredient `json:"out"`
	}
	err := c.do(ctx, http.MethodGet, "/v1/owners/"+url.PathEscape(owner), nil, &account)
	return account.Out, err
}

// Book books a movement under an id of up to 200 letters, digits and any of "._:-". It is no error if it is booked
// under this id already. It is one if another movement is.
func (c *Client) Book(ctx context.Context, id string, movement Movement) error {
	return c.do(ctx, http.MethodPut, "/v1/movements/"+url.PathEscape(id), movement, nil)
}

// Error is an answer of the freezer that is none of success.
type Error struct {
	Code           int
	Status, Detail string
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return "the freezer answers " + e.Status
	}
	return fmt.Sprintf("the freezer answers %s: %s", e.Status, e.Detail)
}

// IsRefused is true if the freezer is well and says no: there may be none left of an ingredient (409). It is false if
// the freezer does not answer, throttles (429) or fails (5xx).
func IsRefused(err error) bool {
	answer, ok := errors.AsType[*Error](err)
	return ok && answer.Code != http.StatusTooManyRequests && answer.Code < http.StatusInternalServerError
}

// do sends a request and reads the answer. Its errors end up in a status, so the same trouble must have the same words
// each time: an error that names the port of this connection, say, would change the status with every attempt.
func (c *Client) do(ctx context.Context, method, path string, body, answer any) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, &content)
	if err != nil {
		return fmt.Errorf("the freezer has no usable address: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("the freezer does not answer: %w", c.cause(err))
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("the freezer does not answer in full: %w", c.cause(err))
	}
	if response.StatusCode >= 300 {
		return refusal(response, said)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("the freezer's answer makes no sense: %w", err)
	}
	return nil
}

// refusal is the error that the freezer answered with: application/problem+json (RFC 9457) if it comes from the freezer
// itself, and anything at all if it comes from something in between.
func refusal(response *http.Response, said []byte) error {
	refused := &Error{Code: response.StatusCode, Status: response.Status}
	var problem struct{ Title, Detail string }
	if json.Unmarshal(said, &problem) == nil {
		refused.Detail = cmp.Or(problem.Detail, problem.Title)
	}
	return refused
}

// cause is the reason for a missing answer, without the details of this attempt.
func (c *Client) cause(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return fmt.Errorf("it was given %s", c.http.Timeout)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		err = failed.Err
	}
	return err
}
