// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package icecream_test has the checks of lab 01, which test how the API server handles objects of the student's types.
// No operator runs.
package icecream_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
)

func TestIcecream(t *testing.T) {
	check.Run(t, check.Features{
		"served":             icecream.Served(),
		"sample":             icecream.Sample(),
		"accepted":           accepted(),
		"toppings-max":       toppingsMax(),
		"toppings-unique":    toppingsUnique(),
		"flavours-unique":    flavoursUnique(),
		"flavour-required":   flavourRequired(),
		"status-subresource": statusSubresource(),
		"columns":            columns(),
		"explained":          explained(),
	}, check.Options{Prepare: prepare, CleanUp: cleanUp})
}

// clients are the clients of these checks for the API server. They use no types, like kubectl.
type clients struct {
	icecreams dynamic.ResourceInterface
	kinds     dynamic.ResourceInterface
	discovery *discovery.DiscoveryClient
}

type clientsKey struct{}

func prepare(ctx context.Context, suite *check.Suite) (context.Context, error) {
	client, err := dynamic.NewForConfig(suite.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(suite.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return context.WithValue(ctx, clientsKey{}, clients{
		icecreams: client.Resource(icecream.Resource),
		kinds:     client.Resource(icecream.Definitions),
		discovery: discoveryClient,
	}), nil
}

// cleanUp deletes all icecreams before the next check. If the kind is not served, there are none.
func cleanUp(ctx context.Context) error {
	_ = ctx.Value(clientsKey{}).(clients).icecreams.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	return nil
}

// visit is a check at the API server. Its methods are the vocabulary of this lab's checks.
type visit struct {
	*check.Check
	clients
	ctx context.Context
	t   *testing.T
}

// assess makes a step of a feature from a function that uses the API server.
func assess(step func(visit)) func(context.Context, *testing.T, *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		step(visit{Check: c, clients: ctx.Value(clientsKey{}).(clients), ctx: ctx, t: t})
	}
}
