// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package llama_test has the checks of lab 07, which test an aggregated API server with real clients and over HTTP. It
// knows the paths and the answers of the Kubernetes API, but not how a server produces them.
package llama_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/limited"
)

func TestLlama(t *testing.T) {
	check.Run(t, check.Features{
		"discovery":            discovered(),
		"harmless":             harmless(),
		"aggregated-discovery": aggregatedDiscovery(),
		"list":                 list(),
		"get":                  get(),
		"all-namespaces":       allNamespaces(),
		"media-types":          mediaTypes(),
		"not-found":            notFound(),
		"numbers":              numbers(),
		"table":                table(),
		"explain":              explain(),

		"create":         create(),
		"update":         update(),
		"patch":          patch(),
		"delete":         remove(),
		"dry-run":        dryRun(),
		"namespaces":     namespaces(),
		"selectors":      selectors(),
		"paging":         paging(),
		"watch":          watched(),
		"bookmarks":      bookmarks(),
		"initial-events": initialEvents(),
		"gone":           gone(),
		"restart":        restart(),
		"informer":       informer(),
		"graceful":       graceful(),

		"tls":             verified(),
		"front-proxy":     frontProxy(),
		"authorization":   authorization(),
		"limits":          limits(),
		"farmpods":        farmPods(),
		"deputy":          deputy(),
		"farmpod-watch":   farmPodWatch(),
		"pods-unreadable": podsUnreadable(),
		"available":       available(),
	}, check.Options{Prepare: prepare, CleanUp: cleanUp, Scenario: step(scenario), Requests: scenarioRequests})
}

// clients are the clients of these checks for the API server.
type clients struct {
	http    *http.Client
	host    string
	dynamic dynamic.Interface
	typed   kubernetes.Interface
	kept    *kept
}

// kept holds the results that a check leaves for a later one.
type kept struct {
	farmPodUID string // of the FarmPod keptFarmPod, before a restart
	delayed    bool   // the running server was started with a shutdown delay
	deleted    deletedNamespace
	withdrawn  withdrawnRight
	manifests  manifests // of config/default
}

type clientsKey struct{}

func clientsOf(ctx context.Context) clients { return ctx.Value(clientsKey{}).(clients) }

// These are the namespaces of the checks. Their content is deleted after each check.
const (
	ns      = "llama-checks"
	otherNS = "llama-checks-too"
)

func prepare(ctx context.Context, suite *check.Suite) (context.Context, error) {
	client, err := rest.HTTPClientFor(suite.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(bounded(suite.Config))
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	typed, err := kubernetes.NewForConfig(suite.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	for _, name := range []string{ns, otherNS, pens} {
		namespace := &corev1.Namespace{ObjectMeta: ours(name)}
		if _, err := typed.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating the namespace %s: %w", name, err)
		}
	}
	return context.WithValue(ctx, clientsKey{},
		clients{http: client, host: suite.Config.Host, dynamic: dynamicClient, typed: typed, kept: &kept{}}), nil
}

// bounded returns a configuration of clients that limit how much of an answer they read, because answers about llamas
// come from the submission.
func bounded(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return answers{inner} })
	return config
}

// answers limits each answer to eventsLimit bytes.
type answers struct{ http.RoundTripper }

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{limited.Reader(response.Body, eventsLimit), response.Body}
	}
	return response, err
}

// ours returns metadata that marks an object as one of the run, so that it is deleted with the others, even in a shared
// cluster.
func ours(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{existing.Label: "true"}}
}

// cleanUp removes the llamas and Pods of a check. A server that can't delete llamas is not an error of ours: each check
// uses its own names.
func cleanUp(ctx context.Context) error {
	c := clientsOf(ctx)
	for _, namespace := range []string{ns, otherNS} {
		c.send(ctx, http.MethodDelete, llamas(namespace), nil)
		err := c.typed.CoreV1().Pods(namespace).DeleteCollection(ctx,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("removing the Pods of a check: %w", err)
		}
	}
	return nil
}
