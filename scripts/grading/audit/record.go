// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Recorder writes an audit log where the API server's own is not available. It logs the requests that pass through it,
// in the API server's format, as the audit policy of clusters/config would. Requests that reach the API server by
// another route are not in the log.
type Recorder struct {
	mutex sync.Mutex
	file  *os.File
}

// bodyLimit is the largest body that is recorded, in bytes: that of the largest object that an API server accepts.
const bodyLimit = 3 << 20

// NewRecorder returns a Recorder that writes a new log into a file.
func NewRecorder(path string) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the audit log: %w", err)
	}
	return &Recorder{file: file}, nil
}

// Close ends the log.
func (r *Recorder) Close() error { return r.file.Close() }

// Transport returns a transport that records the requests sent through it as requests of a user. As an API server does,
// it records each one before it passes on the response. For writes to these API groups it also records the bodies.
func (r *Recorder) Transport(user string, groups []string, next http.RoundTripper) http.RoundTripper {
	return &recording{recorder: r, user: user, groups: groups, next: next}
}

// recording implements http.RoundTripper.
type recording struct {
	recorder *Recorder
	user     string
	groups   []string
	next     http.RoundTripper
}

var requests = apirequest.RequestInfoFactory{
	APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
}

func (t *recording) RoundTrip(request *http.Request) (*http.Response, error) {
	// If there is an error, info contains what is known.
	info, _ := requests.NewRequestInfo(request)
	event := &auditv1.Event{
		AuditID: types.UID(request.Header.Get(auditv1.HeaderAuditID)), RequestURI: request.URL.RequestURI(), Verb: info.Verb,
		RequestReceivedTimestamp: metav1.NowMicro(), Level: auditv1.LevelMetadata,
	}
	event.User.Username = t.user
	if info.IsResourceRequest {
		event.ObjectRef = &auditv1.ObjectReference{
			APIGroup: info.APIGroup, APIVersion: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource,
			Namespace: info.Namespace, Name: info.Name,
		}
	}
	whole := slices.Contains(t.groups, info.APIGroup) && !slices.Contains([]string{"get", "list", "watch"}, info.Verb)
	if whole && request.Body != nil {
		event.Level = auditv1.LevelRequestResponse
		request = request.Clone(request.Context())
		body, err := peek(&request.Body)
		if err != nil {
			return nil, err
		}
		event.RequestObject = object(body, request.Header.Get("Content-Type"))
	}
	answer, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err // neither the recorder nor the operator knows whether the request was processed
	}
	event.ResponseStatus = &metav1.Status{Code: int32(answer.StatusCode)}
	failed := answer.StatusCode >= http.StatusBadRequest
	if failed || whole {
		body, err := read(answer)
		if err != nil {
			return nil, errors.Join(err, answer.Body.Close())
		}
		if failed {
			event.ResponseStatus.Message = message(body, answer.Header.Get("Content-Type"))
		}
		if whole {
			event.ResponseObject = object(body, answer.Header.Get("Content-Type"))
		}
	}
	if info.Verb != "watch" {
		event.Stage = auditv1.StageResponseComplete
		return t.logged(event, answer)
	}
	// A watch is logged when it begins and when it has ended.
	event.Stage = auditv1.StageResponseStarted
	answer.Body = &closing{ReadCloser: answer.Body, closed: func() {
		event.Stage = auditv1.StageResponseComplete
		_ = t.recorder.write(event) // the run is over
	}}
	return t.logged(event, answer)
}

// logged returns an answer after its event is written: no client may see an answer that is not in the log.
func (t *recording) logged(event *auditv1.Event, answer *http.Response) (*http.Response, error) {
	if err := t.recorder.write(event); err != nil {
		return nil, errors.Join(err, answer.Body.Close())
	}
	return answer, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// closing reports when a body is closed.
type closing struct {
	io.ReadCloser
	once   sync.Once
	closed func()
}

func (c *closing) Close() error {
	err := c.ReadCloser.Close()
	c.once.Do(c.closed)
	return err
}

// write writes an event in a single write.
func (r *Recorder) write(event *auditv1.Event) error {
	event.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: auditv1.SchemeGroupVersion.String()}
	event.StageTimestamp = metav1.NewMicroTime(time.Now())
	line, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	return nil
}

// peek reads a body, up to one byte beyond bodyLimit, and replaces it so that it can be read again.
func peek(body *io.ReadCloser) ([]byte, error) {
	begin, err := io.ReadAll(io.LimitReader(*body, bodyLimit+1))
	if err != nil {
		return nil, err
	}
	*body = readCloser{io.MultiReader(bytes.NewReader(begin), *body), *body}
	return begin, nil
}

// read reads an answer's body without its compression, and leaves the answer unchanged.
func read(answer *http.Response) ([]byte, error) {
	body, err := peek(&answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.Header.Get("Content-Encoding") != "gzip" {
		return body, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, nil //nolint:nilerr // unreadable content is passed on unchanged, and recorded without its body
	}
	content, err := io.ReadAll(io.LimitReader(unpacked, bodyLimit+1))
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	return content, nil
}

// object returns a body as it is recorded. Custom resources are JSON, and bodies of other types are left out.
func object(body []byte, contentType string) *runtime.Unknown {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	if len(body) > bodyLimit || !strings.Contains(mediaType, "json") || !json.Valid(body) {
		return nil
	}
	return &runtime.Unknown{Raw: body, ContentType: runtime.ContentTypeJSON}
}

// message returns the message in an API server's error.
func message(body []byte, contentType string) string {
	var status metav1.Status
	mediaType, _, _ := mime.ParseMediaType(contentType)
	if mediaType != runtime.ContentTypeProtobuf {
		_ = json.Unmarshal(body, &status)
		return status.Message
	}
	// The body is a magic number of four bytes and an envelope: k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
	var envelope runtime.Unknown
	if len(body) > 4 && envelope.Unmarshal(body[4:]) == nil {
		_ = status.Unmarshal(envelope.Raw)
	}
	return status.Message
}
