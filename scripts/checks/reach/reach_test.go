// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reach

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// podOf returns a Pod with a named port.
func podOf(name string, ready bool) corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func serviceTo(target intstr.IntOrString) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: target}},
		},
	}
}

func TestTargetOf(t *testing.T) {
	pod := podOf("a", true)
	for name, test := range map[string]struct {
		target intstr.IntOrString
		port   int32
		want   int32
		err    string
	}{
		"a number":             {intstr.FromInt32(8081), 80, 8081, ""},
		"none":                 {intstr.IntOrString{}, 80, 80, ""},
		"a name":               {intstr.FromString("http"), 80, 8080, ""},
		"a name of no port":    {intstr.FromString("https"), 80, 0, "does not name"},
		"a port that is wrong": {intstr.FromInt32(8081), 443, 0, "has no port 443"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := targetOf(serviceTo(test.target), &pod, test.port)
			if found != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("targetOf() = %d, %v, want %d, %s", found, err, test.want, test.err)
			}
		})
	}
}

func TestTerminatingPodIsNotReady(t *testing.T) {
	pod := podOf("a", true)
	if !ready(&pod) {
		t.Error("ready() of a ready Pod = false")
	}
	pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if ready(&pod) {
		t.Error("a Pod that is being deleted is ready")
	}
}

// apiServer serves a Service and Pods, and forwards ports as an API server does, to a server that returns the Pod and
// the port of the request.
func apiServer(t *testing.T, pods ...corev1.Pod) *rest.Config {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(value any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(value); err != nil {
				t.Error(err)
			}
		}
	}
	service := serviceTo(intstr.FromString("http"))
	service.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	mux.HandleFunc("GET /api/v1/namespaces/shop/services/web", answer(service))
	mux.HandleFunc("GET /api/v1/namespaces/shop/pods", answer(corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: pods,
	}))
	mux.HandleFunc("POST /api/v1/namespaces/shop/pods/{pod}/portforward", func(w http.ResponseWriter, r *http.Request) {
		forward(t, w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// forward answers each connection with the Pod and the port of the request.
func forward(t *testing.T, w http.ResponseWriter, r *http.Request) {
	t.Helper()
	if r.PathValue("pod") == "forbidden" {
		http.Error(w, "you may not", http.StatusForbidden)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		t.Error(err)
		return
	}
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r,
		func(stream httpstream.Stream, replied <-chan struct{}) error {
			go func() {
				<-replied
				if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
					// The client reads it, or the test fails.
					_, _ = io.WriteString(stream, r.PathValue("pod")+" "+stream.Headers().Get(corev1.PortHeader))
				}
				stream.Close()
			}()
			return nil
		})
	if connection == nil {
		t.Error("the connection was not upgraded")
		return
	}
	defer connection.Close()
	select {
	case <-connection.CloseChan():
	case <-r.Context().Done():
	}
}

func TestServiceReachesReadyPod(t *testing.T) {
	config := apiServer(t, podOf("starts", false), podOf("runs", true))
	tunnel, err := Service(t.Context(), config, "shop", "web", 80)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", tunnel.Address)
	if err != nil {
		t.Fatal(err)
	}
	output, err := io.ReadAll(connection)
	if string(output) != "runs 8080" {
		t.Errorf("reading from the tunnel = %q, %v", output, err)
	}
	connection.Close()
	tunnel.Close()
	if _, err := net.Dial("tcp", tunnel.Address); err == nil {
		t.Error("the tunnel still accepts connections after Close")
	}
}

func TestServiceErrors(t *testing.T) {
	if _, err := Service(t.Context(), apiServer(t, podOf("starts", false)), "shop", "web", 80); !errors.Is(err, ErrNoPod) {
		t.Errorf("Service() without a ready Pod: error = %v", err)
	}
	if _, err := Service(t.Context(), apiServer(t), "shop", "other", 80); err == nil ||
		!strings.Contains(err.Error(), "the Service other") {
		t.Errorf("Service() of a missing Service: error = %v", err)
	}
	if _, err := Service(t.Context(), apiServer(t, podOf("forbidden", true)), "shop", "web", 80); err == nil ||
		!strings.Contains(err.Error(), "port 8080 of the Pod forbidden") || !strings.Contains(err.Error(), "you may not") {
		t.Errorf("Service() without the right to forward ports: error = %v", err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the lesson is over"))
	if _, err := Service(ended, apiServer(t, podOf("runs", true)), "shop", "web", 80); err == nil {
		t.Error("Service() with a cancelled context: error = nil")
	}
}
