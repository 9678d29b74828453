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

// credentials are what the operator shows to the proxy of the API, and what the proxy shows to the API server in its
// place.
type credentials struct {
	mutex  sync.Mutex
	tokens map[string]string // by what the operator shows
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

// auditID is how a request names itself in the audit log, and an answer the request.
// (k8s.io/apiserver/pkg/apis/audit, HeaderAuditID)
const auditID = "Audit-ID"

const bearer = "Bearer "

// show puts what the API server knows into the place of what the operator has shown, and marks the request.
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

// hide keeps the mark from the operator.
func hide(answer *http.Response) { answer.Header.Del(auditID) }
