// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Verdict is the outcome of a request. It names the component that decided it.
type Verdict string

// These are the verdicts. Refused is a refusal by a part of the API server that is neither a webhook nor a policy, such
// as the schema. Unanswered means that a webhook was called and gave no usable answer.
const (
	Accepted        Verdict = "accepted"
	DeniedByWebhook Verdict = "denied by a webhook"
	DeniedByPolicy  Verdict = "denied by a policy"
	Unanswered      Verdict = "not answered by a webhook"
	Refused         Verdict = "refused by the API server itself"
)

// Answer is the API server's answer to a request.
type Answer struct {
	Verdict Verdict
	// Message is the API server's message, if the request was not accepted.
	Message string
	// Object is the object as it is stored, or as a dry run would store it. It is nil if the request was not accepted.
	Object   *unstructured.Unstructured
	Warnings []string
	Took     time.Duration
}

// String returns the answer as the end of a sentence: "it was accepted".
func (a Answer) String() string {
	if a.Verdict == Accepted {
		return "it was accepted"
	}
	return fmt.Sprintf("it was %s: %s", a.Verdict, a.Message)
}

// Client sends requests, and changes the registered webhooks and policies.
type Client struct {
	config  *rest.Config
	dynamic dynamic.Interface
	typed   kubernetes.Interface
	mapper  meta.RESTMapper
	canary  int // number of canaries so far
}

// NewClient returns a client with an administrator's access.
func NewClient(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = warnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery()))
	return &Client{config: config, dynamic: client, typed: typed, mapper: mapper}, nil
}

// As returns a client that sends its requests as another user.
func (c *Client) As(user string, groups ...string) (*Client, error) {
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return NewClient(config)
}

// Request is one request.
type Request func(context.Context, dynamic.Interface) (*unstructured.Unstructured, error)

// Ask sends a request and returns the answer. An error is internal: the API server sent no answer.
func (c *Client) Ask(ctx context.Context, request Request) (Answer, error) {
	recorder := &warningRecorder{}
	began := time.Now()
	object, err := request(context.WithValue(ctx, recorderKey{}, recorder), c.dynamic)
	answer := Answer{Took: time.Since(began), Warnings: recorder.all()}
	if err == nil {
		answer.Verdict, answer.Object = Accepted, object
		return answer, nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return answer, fmt.Errorf("sending a request to the API server: %w", err)
	}
	answer.Message = status.Status().Message
	answer.Verdict = verdict(answer.Message)
	return answer, nil
}

// verdict determines who denied a request. The API server reports that only in its message. (k8s.io/apiserver,
// pkg/admission/plugin/webhook/errors and pkg/admission/plugin/policy)
func verdict(message string) Verdict {
	switch {
	case strings.Contains(message, " denied the request: panic: ") && strings.HasSuffix(message, " [recovered]"):
		return Unanswered // controller-runtime turns a panic into a denial, but no rule was applied
	case strings.HasPrefix(message, `admission webhook "`) && strings.Contains(message, " denied the request"):
		return DeniedByWebhook
	case strings.Contains(message, "olicy '") && strings.Contains(message, " denied request: "):
		return DeniedByPolicy
	case strings.Contains(message, `failed calling webhook "`):
		return Unanswered
	default:
		return Refused
	}
}

// warningRecorder collects the warnings that come with one answer.
type warningRecorder struct {
	mutex    sync.Mutex
	warnings []string
}

type recorderKey struct{}

func (h *warningRecorder) all() []string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.warnings
}

// warnings passes each warning to the request whose answer contained it.
type warnings struct{}

// HandleWarningHeaderWithContext is called for each warning. API servers send warnings with code 299.
func (warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const miscellaneous = 299
	if recorder, ok := ctx.Value(recorderKey{}).(*warningRecorder); ok && code == miscellaneous {
		recorder.mutex.Lock()
		defer recorder.mutex.Unlock()
		recorder.warnings = append(recorder.warnings, text)
	}
}
