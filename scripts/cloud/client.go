// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Client looks into a cloud through its console. It is for checks: the operator's own client is part of the lab.
type Client struct {
	url  string
	http http.Client
}

// NewClient is a client of the console at a URL, as http://127.0.0.1:8080. It waits as long as the context of a call says.
func NewClient(url string) *Client { return &Client{url: strings.TrimSuffix(url, "/")} }

// List is all instances with a tag, or all if the key is empty, in the order in which they were launched.
func (c *Client) List(ctx context.Context, key, value string) ([]Instance, error) {
	path := "/v1/instances"
	if key != "" {
		path += "?tag=" + url.QueryEscape(key+"="+value)
	}
	found, err := ask[instances](ctx, c, http.MethodGet, path, nil)
	return found.Instances, err
}

// Launch launches an instance.
func (c *Client) Launch(ctx context.Context, wanted Launch) (Instance, error) {
	return ask[Instance](ctx, c, http.MethodPost, "/v1/instances", wanted)
}

// Terminate ends an instance. One that has ended stays so.
func (c *Client) Terminate(ctx context.Context, id string) (Instance, error) {
	return ask[Instance](ctx, c, http.MethodDelete, "/v1/instances/"+url.PathEscape(id), nil)
}

// Bill is what all instances cost so far.
func (c *Client) Bill(ctx context.Context) (Bill, error) {
	return ask[Bill](ctx, c, http.MethodGet, "/v1/bill", nil)
}

// Set changes how the cloud behaves.
func (c *Client) Set(ctx context.Context, settings Settings) error {
	_, err := ask[Settings](ctx, c, http.MethodPut, "/console/settings", settings)
	return err
}

// Forget lets the cloud forget all client tokens, as if their time were over.
func (c *Client) Forget(ctx context.Context) error {
	_, err := ask[struct{}](ctx, c, http.MethodDelete, "/console/tokens", nil)
	return err
}

// Error is an answer of the cloud that is none of success.
type Error struct{ Problem }

func (e *Error) Error() string { return fmt.Sprintf("the cloud answers %d: %s", e.Status, e.Detail) }

func ask[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var answer T
	fail := func(err error) (T, error) {
		return answer, fmt.Errorf("asking the cloud (%s %s): %w", method, path, err)
	}
	sent, err := json.Marshal(body)
	if err != nil {
		return fail(err)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(sent))
	if err != nil {
		return fail(err)
	}
	request.Header.Set("Content-Type", "application/json")
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
