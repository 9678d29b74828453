// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
)

// credentials holds the tokens that the operator sends to the proxy of the API, and those that the proxy sends to the
// API server instead.
type credentials struct {
	mutex  sync.Mutex
	tokens map[string]string // by the token that the operator sends
	mark   string
	sent   int
}

func newCredentials() *credentials {
	return &credentials{tokens: map[string]string{}, mark: rand.Text()}
}

// Exchange keeps a token that the API server knows, and returns another one for the operator. The proxy of the API
// accepts the other token, and sends the kept one to the API server instead. The API server itself does not accept the
// operator's token, so no request with it can bypass the faults.
func (i *Injector) Exchange(token string) (shown string) {
	c := i.credentials
	c.mutex.Lock()
	defer c.mutex.Unlock()
	shown = rand.Text() + rand.Text()
	c.tokens[shown] = token
	return shown
}

// AuditMark returns the prefix of the audit IDs of all requests that came to the API server through the proxy. No other
// program knows this prefix.
func (i *Injector) AuditMark() string { return i.credentials.mark }

// auditID is the header in which a request sets its audit ID, and in which the answer repeats it.
// (k8s.io/apiserver/pkg/apis/audit, HeaderAuditID)
const auditID = "Audit-ID"

const bearer = "Bearer "

// show replaces the operator's token by the one that the API server accepts, and marks the request.
func (c *credentials) show(r *httputil.ProxyRequest) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.sent++
	r.Out.Header.Set(auditID, fmt.Sprintf("%s-%d", c.mark, c.sent))
	shown, has := strings.CutPrefix(r.Out.Header.Get("Authorization"), bearer)
	if token, known := c.tokens[shown]; has && known {
		r.Out.Header.Set("Authorization", bearer+token)
	}
}

// hide removes the mark from an answer to the operator.
func hide(answer *http.Response) { answer.Header.Del(auditID) }
