// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// askTimeout is how long a page may take to answer.
const askTimeout = 2 * time.Second

// ClosedError means that no server answers at a node port.
type ClosedError struct {
	Port int32
	Err  error
}

func (e *ClosedError) Error() string {
	return fmt.Sprintf("no server answers at port %d: %v", e.Port, e.Err)
}

// Unwrap returns the API server's error.
func (e *ClosedError) Unwrap() error { return e.Err }

// Page returns the text that the node answers to GET / over HTTP at a port. If no server answers, the error is a
// *ClosedError. The API server may reuse an earlier connection, which keeps working when its port is closed: see
// Listens.
func (o *Owners) Page(ctx context.Context, port int32) (string, error) {
	code, body, err := o.ask(ctx, port, nil)
	switch {
	case err != nil:
		return "", err
	case code >= http.StatusInternalServerError:
		return "", &ClosedError{Port: port, Err: shorten(body)}
	case code != http.StatusOK:
		return "", fmt.Errorf("the node answers at port %d: %d %s: %s",
			port, code, http.StatusText(code), strings.TrimSpace(body))
	}
	return body, nil
}

// Listens reports whether a server accepts a new connection at a node's port, and if not, why. It asks the API server
// for a connection upgrade, because the API server always opens a new connection for one. The server of a page refuses
// the upgrade.
func (o *Owners) Listens(ctx context.Context, port int32) (listens bool, why string, err error) {
	_, body, err := o.ask(ctx, port, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"none"}})
	if closed := (*ClosedError)(nil); errors.As(err, &closed) {
		return false, closed.Error(), nil
	}
	if err != nil {
		return false, "", err
	}
	return strings.Contains(body, notUpgraded), shorten(body).Error(), nil
}

// notUpgraded is the API server's message about a server that it has reached and that has given another answer.
// (k8s.io/apimachinery/pkg/util/proxy)
const notUpgraded = "invalid upgrade response"

// ask sends GET / to a node's port. If there is no answer in time, the error is a *ClosedError.
func (o *Owners) ask(ctx context.Context, port int32, header http.Header) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	url := fmt.Sprintf("%s/api/v1/nodes/http:%s:%d/proxy/", strings.TrimSuffix(o.host, "/"), o.node, port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if header != nil {
		request.Header = header
	}
	answer, err := o.pages.Do(request)
	if err != nil && ctx.Err() != nil {
		return 0, "", &ClosedError{Port: port, Err: fmt.Errorf("no answer within %s", askTimeout)}
	}
	if err != nil {
		return 0, "", fmt.Errorf("asking the node at port %d: %w", port, err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, pageLimit))
	if err != nil {
		return 0, "", &ClosedError{Port: port, Err: err}
	}
	return answer.StatusCode, string(content), nil
}

// pageLimit is how many bytes of a page are read.
const pageLimit = 64 << 10

// pagesClient returns a client of the API server for pages. It uses HTTP/1.1, which an upgrade requires.
func pagesClient(config *rest.Config) (*http.Client, error) {
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for pages: %w", err)
	}
	return client, nil
}

// shorten removes the part of a message that only names the proxy.
func shorten(text string) error {
	if i := strings.Index(text, "dial tcp"); i >= 0 {
		text = text[i:]
	}
	text = strings.ReplaceAll(text, "\n", " ")
	return errors.New(strings.TrimSpace(text))
}
