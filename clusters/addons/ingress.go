// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/addons/known"
)

const (
	// ingressController is the controller in the spec of our IngressClass. (clusters/images/programs/ingress)
	ingressController = "lva.io/ingress"
	// ingressPage is a page that no Ingress names, and ingressAnswer is how the controller answers a request for it.
	ingressPage, ingressAnswer = "ingress:80/", "no Ingress names "
)

// Ingress is the course's own Ingress controller, with the class lab. It is usable when it answers through its Service.
// In a cluster that has another owner's IngressClass, that one is used and ours is not installed.
func Ingress() Addon { return ingress{} }

type ingress struct{}

func (ingress) Name() string { return known.Ingress }

func (i ingress) Install(ctx context.Context, target Target, report func(string)) error {
	p, err := newPlain(i.Name(), target)
	if err != nil {
		return err
	}
	class, err := foreignClass(ctx, p)
	if err != nil {
		return err
	}
	if class != "" {
		report(fmt.Sprintf("the cluster has the class %s, so it gets no Ingress controller of the course: "+
			"let your Ingresses name that class", class))
		return nil
	}
	objects, err := p.objects()
	if err != nil {
		return err
	}
	report("installing the course's Ingress controller")
	if err := p.apply(ctx, objects, report); err != nil {
		return err
	}
	if !target.Pods {
		report("its class exists, but no Pods can run here, so nothing is served")
		return nil
	}
	return p.waitReady(ctx, ingressPage, ingressAnswer, report)
}

// foreignClass returns the name of an IngressClass that is not ours, or "" if there is none.
func foreignClass(ctx context.Context, p *plain) (string, error) {
	classes, err := p.client.NetworkingV1().IngressClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("looking for Ingress controllers: %w", err)
	}
	for _, class := range classes.Items {
		if class.Spec.Controller != ingressController {
			return class.Name, nil
		}
	}
	return "", nil
}

func (i ingress) State(ctx context.Context, target Target) (State, error) {
	p, err := newPlain(i.Name(), target)
	if err != nil {
		return State{}, err
	}
	state, err := p.state(ctx, ingressPage, ingressAnswer)
	if err != nil || state.Installed != "" {
		if state.Usable {
			state.Detail = "class lab"
		}
		return state, err
	}
	class, err := foreignClass(ctx, p)
	if class != "" {
		state.Installed, state.Usable, state.Detail = "the cluster's own", true, "class "+class
	}
	return state, err
}

func (i ingress) Uninstall(ctx context.Context, target Target) error {
	p, err := newPlain(i.Name(), target)
	if err != nil {
		return err
	}
	return p.uninstall(ctx)
}
