// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cloud

import (
	"context"
	"net/http"
	"net/url"

	"lva.io/operators/scripts/services/service"
)

// Client reads and controls a cloud through its console. It is for checks: the operator's own client is part of the
// lab.
type Client struct{ service *service.Client }

// NewClient returns a client of the console at a URL, such as http://127.0.0.1:8080. It waits as long as the context of
// a call allows.
func NewClient(url string) *Client { return &Client{service.NewClient(Service, url)} }

// List returns all instances with a tag, or all instances if the key is empty, in the order in which they were
// launched.
func (c *Client) List(ctx context.Context, key, value string) ([]Instance, error) {
	path := "/v1/instances"
	if key != "" {
		path += "?tag=" + url.QueryEscape(key+"="+value)
	}
	found, err := service.Ask[instances](ctx, c.service, http.MethodGet, path, nil)
	return found.Instances, err
}

// Launch launches an instance.
func (c *Client) Launch(ctx context.Context, wanted Launch) (Instance, error) {
	return service.Ask[Instance](ctx, c.service, http.MethodPost, "/v1/instances", wanted)
}

// Terminate terminates an instance. If it has been terminated before, nothing changes.
func (c *Client) Terminate(ctx context.Context, id string) (Instance, error) {
	return service.Ask[Instance](ctx, c.service, http.MethodDelete, "/v1/instances/"+url.PathEscape(id), nil)
}

// Bill returns what all instances cost so far.
func (c *Client) Bill(ctx context.Context) (Bill, error) {
	return service.Ask[Bill](ctx, c.service, http.MethodGet, "/v1/bill", nil)
}

// Set changes how the cloud behaves.
func (c *Client) Set(ctx context.Context, settings Settings) error {
	_, err := service.Ask[Settings](ctx, c.service, http.MethodPut, "/console/settings", settings)
	return err
}

// Forget makes the cloud forget all client tokens, as if they had expired.
func (c *Client) Forget(ctx context.Context) error {
	_, err := service.Ask[struct{}](ctx, c.service, http.MethodDelete, "/console/tokens", nil)
	return err
}

// Error is an answer of the cloud that does not report success.
type Error = service.Error
