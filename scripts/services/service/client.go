// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Client sends requests to a service. It is for checks: the operator's own client is part of the lab.
type Client struct {
	name, url string
	http      http.Client
}

// NewClient returns a client of the service of this name at a URL, such as http://127.0.0.1:8080. It waits as long as
// the context of a call allows.
func NewClient(name, url string) *Client {
	return &Client{name: name, url: strings.TrimSuffix(url, "/")}
}

// Error is an answer of a service that does not report success.
type Error struct {
	Service string
	Problem
}

func (e *Error) Error() string {
	return fmt.Sprintf("the %s answers %d: %s", e.Service, e.Status, e.Detail)
}

// Ask sends a request, with a body unless it is nil, and returns the decoded answer. An answer that does not report
// success is returned as an *Error.
func Ask[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var answer T
	fail := func(err error) (T, error) {
		return answer, fmt.Errorf("asking the %s (%s %s): %w", c.name, method, path, err)
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
		refused := &Error{c.name, Problem{Detail: response.Status, Status: response.StatusCode}}
		_ = json.NewDecoder(response.Body).Decode(&refused.Problem) // an answer without problem+json still has its status
		return fail(refused)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fail(err)
	}
	return answer, nil
}
