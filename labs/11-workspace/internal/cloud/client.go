// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cloud

import (
	"bytes"
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

// The states of an instance.
const (
	Pending    = "pending"
	Running    = "running"
	Terminated = "terminated"
)

// Instance is a machine, as the cloud shows it.
type Instance struct {
	ID    string            `json:"id"`
	Type  string            `json:"type"`
	Image string            `json:"image"`
	State string            `json:"state"`
	Tags  map[string]string `json:"tags"`
}

// Launch has the parameters of a new instance.
type Launch struct {
	// Token is remembered by the cloud for some minutes: as long as it is, the same launch with the same token answers
	// with the same instance.
	Token string            `json:"token,omitempty"`
	Type  string            `json:"type"`
	Image string            `json:"image"`
	Tags  map[string]string `json:"tags,omitempty"`
}

// Client is how the operator talks to the cloud.
type Client struct {
	url  string
	http http.Client
}

// NewClient makes a client of the cloud at a URL. Patience is how long it waits for an answer; 0 is for ever.
func NewClient(url string, patience time.Duration) *Client {
	return &Client{url: strings.TrimSuffix(url, "/"), http: http.Client{Timeout: patience}}
}

// Launch launches an instance, unless it was launched with this token before. The answer is what it is like now.
func (c *Client) Launch(ctx context.Context, launch Launch) (*Instance, error) {
	return do[Instance](ctx, c, http.MethodPost, "/v1/instances", launch)
}

// Get reads an instance. The answer may be a moment behind: one that was just launched can be "not found", see
// IsNotFound.
func (c *Client) Get(ctx context.Context, id string) (*Instance, error) {
	return do[Instance](ctx, c, http.MethodGet, "/v1/instances/"+url.PathEscape(id), nil)
}

// List lists all instances with a tag, also those that are terminated. The answer may be a moment behind.
func (c *Client) List(ctx context.Context, key, value string) ([]Instance, error) {
	type list struct {
		Instances []Instance `json:"instances"`
	}
	all, err := do[list](ctx, c, http.MethodGet, "/v1/instances?tag="+url.QueryEscape(key+"="+value), nil)
	if err != nil {
		return nil, err
	}
	return all.Instances, nil
}

// Terminate ends an instance. It is no error if it has ended before.
func (c *Client) Terminate(ctx context.Context, id string) error {
	_, err := do[Instance](ctx, c, http.MethodDelete, "/v1/instances/"+url.PathEscape(id), nil)
	return err
}

// Tag gives an instance a tag, unless it has that already. If it has another value, that is an error: see IsConflict.
func (c *Client) Tag(ctx context.Context, id, key, value string) error {
	body := map[string]string{"value": value}
	_, err := do[Instance](ctx, c, http.MethodPut, "/v1/instances/"+url.PathEscape(id)+"/tags/"+url.PathEscape(key), body)
	return err
}

// Error is an answer of the cloud that is none of success.
type Error struct {
	Code   int
	Detail string
}

func (e *Error) Error() string { return fmt.Sprintf("the cloud answers %d: %s", e.Code, e.Detail) }

// Why there is no answer: none came, or none that can be read; or no request was sent.
var (
	errNoAnswer = errors.New("the cloud does not answer")
	errNotAsked = errors.New("the cloud can't be asked")
)

// IsUnavailable is true if the cloud itself is in trouble: it does not answer, it throttles (429), or it fails (5xx).
// It is also true if the cloud can't be asked: its address may be wrong.
func IsUnavailable(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return errors.Is(err, errNoAnswer) || errors.Is(err, errNotAsked) ||
		ok && (refused.Code == http.StatusTooManyRequests || refused.Code >= http.StatusInternalServerError)
}

// IsRefused is true of every answer that is none of success.
func IsRefused(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// IsNotFound is true of the answer 404.
func IsNotFound(err error) bool { return hasCode(err, http.StatusNotFound) }

// IsConflict is true of the answer 409.
func IsConflict(err error) bool { return hasCode(err, http.StatusConflict) }

func hasCode(err error, code int) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Code == code
}

// do sends a request and reads the answer. Its errors end up in a status, so the same trouble must have the same words
// each time: an error that names the port of this connection, say, would change the status with every attempt.
func do[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return nil, fmt.Errorf("%w: encode the request: %w", errNotAsked, err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, &content)
	if err != nil {
		return nil, fmt.Errorf("%w: it has no usable address: %w", errNotAsked, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoAnswer, c.cause(err))
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%w in full: %w", errNoAnswer, c.cause(err))
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		refused := &Error{Code: response.StatusCode, Detail: http.StatusText(response.StatusCode)}
		_ = json.Unmarshal(said, refused) // An answer that is no problem+json (RFC 9457) has its code.
		return nil, refused
	}
	var answer T
	if err := json.Unmarshal(said, &answer); err != nil {
		return nil, fmt.Errorf("%w in JSON: %w", errNoAnswer, err)
	}
	return &answer, nil
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
