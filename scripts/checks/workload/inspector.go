// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	admissionreviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/existing"
)

// Answer is the error with which the API server answers a write: an HTTP status code, and the reason that belongs to
// it. The zero Answer is no error.
type Answer struct {
	Code   int32
	Reason metav1.StatusReason
}

// These are the answers of an API server that is overloaded, or that lacks something that it needs.
var (
	InternalError   = Answer{http.StatusInternalServerError, metav1.StatusReasonInternalError}
	Unavailable     = Answer{http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable}
	TimedOut        = Answer{http.StatusGatewayTimeout, metav1.StatusReasonTimeout}
	TooManyRequests = Answer{http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests}
)

// NoConflict is the answer of a webhook that refuses a write with the code of a conflict, and gives no reason. A
// conflict of the API server has a reason, and another try resolves it.
var NoConflict = Answer{Code: http.StatusConflict}

// DownName is the name of the webhook by which Answering makes requests fail. It appears in the API server's errors.
const DownName = "inspector.team.example.com"

const (
	// askedTimeout is how long the API server may take to call a new webhook, which a watch reports to it.
	askedTimeout = 20 * time.Second
	askedPoll    = 10 * time.Millisecond
)

// probeName is the name of the Service that Answering uses to test whether the API server calls its webhook.
const probeName = "probe"

// answeringLimit is how many bytes of a request the webhook reads.
const answeringLimit = 4 << 20

// Answering makes the API server answer creates and updates of a user with errors, in one namespace. answer returns the
// error for a resource (such as deployments, or lolcows/status) and the name of an object. It is implemented by a
// webhook in this process. An API server that can't connect to the webhook answers all these requests with 500. The
// message contains DownName. Answering returns when the API server calls the webhook. end, which is never nil, removes
// the webhook on its first call.
func (o *Owners) Answering(
	ctx context.Context, user, namespace string, resources []string, answer func(resource, name string) Answer,
) (end func(), err error) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionreviewv1.AdmissionReview
		if err := json.NewDecoder(io.LimitReader(r.Body, answeringLimit)).Decode(&review); err != nil ||
			review.Request == nil {
			http.Error(w, "this is no review", http.StatusBadRequest)
			return
		}
		request := review.Request
		is := InternalError
		if request.Name != probeName {
			resource := request.Resource.Resource
			if request.SubResource != "" {
				resource += "/" + request.SubResource
			}
			is = answer(resource, request.Name)
		}
		review.Request, review.Response = nil, &admissionreviewv1.AdmissionResponse{UID: request.UID, Allowed: is.Code == 0}
		if is.Code != 0 {
			review.Response.Result = &metav1.Status{
				Status: metav1.StatusFailure, Code: is.Code, Reason: is.Reason, Message: http.StatusText(int(is.Code)),
			}
		}
		_ = json.NewEncoder(w).Encode(&review)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	all := o.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	created, err := all.Create(ctx, o.answeringWebhook(server, user, namespace, resources), metav1.CreateOptions{})
	if err != nil {
		server.Close()
		return func() {}, fmt.Errorf("registering a webhook: %w", err)
	}
	end = sync.OnceFunc(func() {
		_ = all.Delete(context.WithoutCancel(ctx), created.Name, metav1.DeleteOptions{})
		server.CloseClientConnections()
		server.Close()
	})
	probe := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: probeName, Namespace: namespace},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	err = await.Within(ctx, askedTimeout, askedPoll, "the API server to ask a webhook",
		func(ctx context.Context) (string, error) {
			_, err := o.Client.CoreV1().Services(namespace).Create(ctx,
				probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			switch {
			case err == nil:
				return "it accepts Services", nil
			case strings.Contains(err.Error(), DownName):
				return "", nil
			}
			return "", fmt.Errorf("asking whether Services are accepted: %w", err)
		})
	if err != nil {
		end()
	}
	return end, err
}

// answeringWebhook returns the configuration of the webhook. It matches the user's requests for the resources, and the
// probe.
func (o *Owners) answeringWebhook(server *httptest.Server, user, namespace string,
	resources []string,
) *admissionv1.ValidatingWebhookConfiguration {
	plural := make([]string, 0, len(resources))
	for _, resource := range resources {
		name, _, _ := strings.Cut(resource, "/")
		plural = append(plural, fmt.Sprintf("%q", name))
	}
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: namespace + "-answers-",
			Labels:       map[string]string{existing.Label: "true"},
		},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: DownName,
			ClientConfig: admissionv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule: admissionv1.Rule{
					APIGroups: []string{"", Deployments.Group, o.Resource.Group}, APIVersions: []string{"*"},
					Resources: append([]string{"services"}, resources...),
				},
			}},
			MatchConditions: []admissionv1.MatchCondition{{
				Name: "the-operator",
				Expression: fmt.Sprintf(
					`request.name == %q || request.userInfo.username == %q && request.resource.resource in [%s]`,
					probeName, user, strings.Join(plural, ", ")),
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			TimeoutSeconds:    new(int32(2)),
			SideEffects:       new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}
