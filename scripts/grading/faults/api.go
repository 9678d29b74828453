// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/certificates"
)

// ProxyAPI serves the API of a cluster at another address: with TLS, over HTTP/2, with a certificate of an authority of
// its own. It takes the cluster's address and authority from the configuration, but no credentials: a request without a
// token is anonymous. See Exchange for the operator's token.
func (i *Injector) ProxyAPI(config *rest.Config) (host string, ca []byte, err error) {
	target, err := url.Parse(config.Host)
	if err != nil || target.Scheme != "https" {
		return "", nil, fmt.Errorf("invalid address of the cluster %q: it must begin with https://", config.Host)
	}
	trust, err := rest.TLSConfigFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return "", nil, fmt.Errorf("reading the cluster's authority: %w", err)
	}
	identity, ca, err := newIdentity(i.advertiseAddress())
	if err != nil {
		return "", nil, err
	}
	// Requests pass unchanged, including the compression that the operator asks for.
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true, DisableCompression: true}
	if config.Proxy != nil {
		transport.Proxy = config.Proxy // the proxy-url of the kubeconfig
	}
	var through http.RoundTripper = transport
	if i.API != nil {
		through = i.API(through)
	}
	s := &service{injector: i, parse: parseAPI, refuse: answerOf}
	s.forward(through, func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		i.credentials.show(r)
	})
	i.mutex.Lock()
	i.transports = append(i.transports, transport)
	i.mutex.Unlock()
	address, err := s.listen(identity)
	if err != nil {
		return "", nil, err
	}
	return "https://" + address, ca, nil
}

// newIdentity returns the proxy's TLS configuration, with a certificate for the address, and the authority in PEM that
// a client needs to verify it.
func newIdentity(address string) (identity *tls.Config, ca []byte, err error) {
	const name = "operator-labs-faults"
	authority, err := certificates.NewAuthority(name)
	if err != nil {
		return nil, nil, err
	}
	issued, err := authority.Server(name, []string{"localhost"}, net.ParseIP(address))
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificate of %s: %w", name, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, authority.PEM, nil
}

// api parses requests as the API server itself does.
var api = apirequest.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

func parseAPI(r *http.Request) request {
	// On an error, info holds what could be parsed. The API server will refuse the request.
	info, _ := api.NewRequestInfo(r)
	asked := request{entry: Entry{
		Service: API, Verb: info.Verb, Namespace: info.Namespace, Name: info.Name,
		Write: !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method),
	}}
	if !info.IsResourceRequest {
		asked.entry.Resource = info.Path
		return asked
	}
	asked.entry.Resource = strings.TrimSuffix(info.Resource+"/"+info.Subresource, "/")
	asked.group = info.APIGroup
	asked.watch = info.Verb == "watch"
	asked.endless = asked.watch || info.Subresource == "log" && r.URL.Query().Has("follow")
	asked.streamingList = asked.watch && r.URL.Query().Has(sendInitialEvents)
	asked.cached = info.Verb == "list" && r.URL.Query().Get("resourceVersion") == "0"
	asked.counts = !asked.watch && !isBackground(info)
	if info.Verb == "create" && info.Name == "" {
		asked.entry.Name = nameInBody(r)
	}
	return asked
}

// isBackground reports whether a request is not part of an operator's work on its objects: leader election, events, and
// reviews of access and tokens. Such requests arrive at arbitrary times, so counting them would make the numbers differ
// between runs.
func isBackground(info *apirequest.RequestInfo) bool {
	switch info.APIGroup {
	case "coordination.k8s.io", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io":
		return true
	}
	return info.APIGroup == "" && info.Resource == "events"
}

// nameInBody returns the name of the object that a request creates, which the URL does not contain. It is empty if the
// body can't be read, or leaves the name to the API server.
func nameInBody(r *http.Request) string {
	body, whole := peek(r)
	if !whole {
		return ""
	}
	var object metav1.PartialObjectMetadata
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch mediaType {
	case runtime.ContentTypeJSON:
		_ = json.Unmarshal(body, &object)
	case runtime.ContentTypeProtobuf:
		// A magic number of four bytes, an envelope, and the object. The metadata have the same field number in all kinds:
		// k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
		var envelope runtime.Unknown
		if len(body) > 4 && envelope.Unmarshal(body[4:]) == nil {
			_ = object.Unmarshal(envelope.Raw)
		}
	}
	return object.Name
}

// peek reads the body of a request, which can be read again afterwards. whole is false if it is larger than any service
// accepts.
func peek(r *http.Request) (body []byte, whole bool) {
	if r.Body == nil {
		return nil, true
	}
	var start bytes.Buffer
	_, err := io.CopyN(&start, r.Body, bodyLimit)
	r.Body = readCloser{io.MultiReader(bytes.NewReader(start.Bytes()), r.Body), r.Body}
	return start.Bytes(), errors.Is(err, io.EOF)
}

// resource returns the resource that a request to the API is about, without its subresource.
func (asked *request) resource() schema.GroupResource {
	resource, _, _ := strings.Cut(asked.entry.Resource, "/")
	return schema.GroupResource{Group: asked.group, Resource: resource}
}

// answerOf returns an error of the API in the form in which the API server sends it.
func answerOf(err *apierrors.StatusError) refusal {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, marshalErr := json.Marshal(status)
	if marshalErr != nil {
		panic(marshalErr) // a Status can always be marshalled
	}
	return refusal{code: int(status.Code), mediaType: runtime.ContentTypeJSON, body: body}
}

// sendInitialEvents is the parameter of a watch that asks for a streaming list.
const sendInitialEvents = "sendInitialEvents"

// refuseStreamingList replaces an answer by that of an API server without streaming lists, such as the embedded one
// (docs/decisions/0011). If a cluster supported them, an operator without permission to list would work there and on no
// other cluster: its grade would depend on the cluster. After the refusal, a client lists instead.
func refuseStreamingList(answer *http.Response) {
	refused := answerOf(apierrors.NewInvalid(
		schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "",
		field.ErrorList{
			field.Forbidden(field.NewPath(sendInitialEvents),
				"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
		},
	))
	_ = answer.Body.Close() // the stream has no reader
	answer.StatusCode, answer.Status = refused.code, http.StatusText(refused.code)
	answer.Header.Set("Content-Type", refused.mediaType)
	answer.Header.Del("Content-Encoding")
	answer.Header.Del("Content-Length")
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(refused.body)), int64(len(refused.body))
}
