// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package connectivity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// proof is a feature: a sentence that holds in a network that works.
type proof struct {
	name  string
	holds func(ctx context.Context, s *scene) error
}

// Names returns the names of all features, in the order in which they run.
func Names() []string {
	var names []string
	for _, p := range proofs {
		names = append(names, p.name)
	}
	return names
}

var proofs = []proof{
	{"Pods reach each other across nodes", podToPod},
	{"Pods reach a Service, and all that are behind it", podToService},
	{"names of Services are resolved", names},
	{"a NodePort answers on every node", nodePort},
	{"a NetworkPolicy denies, and allows", networkPolicy},
	{"a CiliumNetworkPolicy denies, and allows", ciliumNetworkPolicy},
}

func podToPod(ctx context.Context, s *scene) error {
	across := 0
	for _, from := range s.pods[client] {
		for _, to := range s.pods[server] {
			if from.Spec.NodeName == to.Spec.NodeName {
				continue
			}
			across++
			url := "http://" + net.JoinHostPort(to.Status.PodIP, strconv.Itoa(serverPort))
			if err := eventually(ctx, patience, "an answer from a Pod on "+to.Spec.NodeName, func(ctx context.Context) error {
				answer, err := s.get(ctx, from, url)
				if err == nil && !strings.HasPrefix(answer, to.Name+" ") {
					err = fmt.Errorf("the request to %s was answered by another server: %s", to.Name, answer)
				}
				return err
			}); err != nil {
				return err
			}
		}
	}
	if across == 0 {
		return &skipError{"the cluster has one node"}
	}
	return nil
}

func podToService(ctx context.Context, s *scene) error {
	url := "http://" + net.JoinHostPort(s.service.Spec.ClusterIP, "80")
	for _, from := range s.pods[client] {
		answered := map[string]bool{}
		if err := eventually(ctx, patience, "answers from every Pod of a Service", func(ctx context.Context) error {
			answers, err := s.ask(ctx, from, "get", "-n", "8", "-t", answerTime.String(), url)
			if err != nil {
				return err
			}
			for line := range strings.Lines(answers) {
				name, _, _ := strings.Cut(line, " ")
				answered[name] = true
			}
			if len(answered) < len(s.pods[server]) {
				return fmt.Errorf("from %s: only %d of %d Pods have responded",
					from.Spec.NodeName, len(answered), len(s.pods[server]))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// names resolves the short and the full name of the test's Service, and the name of the API server's Service. It
// resolves no public name, because a classroom may have no internet access.
func names(ctx context.Context, s *scene) error {
	for _, from := range s.pods[client] {
		for name, address := range map[string]string{
			server: s.service.Spec.ClusterIP, server + "." + s.namespace + ".svc.cluster.local": s.service.Spec.ClusterIP,
			"kubernetes.default": "",
		} {
			if err := eventually(ctx, patience, "the address of "+name, func(ctx context.Context) error {
				found, err := s.ask(ctx, from, "resolve", "-t", answerTime.String(), name)
				if err == nil && !strings.Contains(found, address) {
					err = fmt.Errorf("%s has the address %s, but DNS returned %s", name, address, strings.TrimSpace(found))
				}
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func nodePort(ctx context.Context, s *scene) error {
	port := strconv.Itoa(int(s.service.Spec.Ports[0].NodePort))
	for _, node := range s.nodes {
		address := ""
		for _, a := range node.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && address == "" {
				address = a.Address
			}
		}
		url := "http://" + net.JoinHostPort(address, port)
		ask := func(ctx context.Context) error { return getFromHost(ctx, url) }
		if !s.options.Nodes {
			from, found := s.podOnOtherNode(node.Name)
			if !found {
				return &skipError{"this machine does not reach the nodes, and there is no other node to ask from"}
			}
			ask = func(ctx context.Context) error {
				_, err := s.get(ctx, from, url)
				return err
			}
		}
		if err := eventually(ctx, patience, "an answer at the NodePort of "+node.Name, ask); err != nil {
			return err
		}
	}
	return nil
}

// podOnOtherNode returns a Pod on another node.
func (s *scene) podOnOtherNode(node string) (corev1.Pod, bool) {
	for _, pod := range s.pods[client] {
		if pod.Spec.NodeName != node {
			return pod, true
		}
	}
	return corev1.Pod{}, false
}

// getFromHost requests a URL from this machine, without the proxy of its environment.
func getFromHost(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return fmt.Errorf("from this machine: %w", err)
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// reached waits until all Pods of an app get an answer. denied waits until none of them does.
func (s *scene) reached(ctx context.Context, app, url string) error {
	return eventually(ctx, patience, app+" gets an answer", func(ctx context.Context) error {
		for _, from := range s.pods[app] {
			if _, err := s.get(ctx, from, url); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *scene) denied(ctx context.Context, app, url string) error {
	return eventually(ctx, patience, app+" gets no answer", func(ctx context.Context) error {
		for _, from := range s.pods[app] {
			answer, err := s.get(ctx, from, url)
			if err == nil {
				return fmt.Errorf("%s got an unexpected response: %s", from.Spec.NodeName, strings.TrimSpace(answer))
			}
			if ctx.Err() != nil {
				return err
			}
		}
		return nil
	})
}

func networkPolicy(ctx context.Context, s *scene) (err error) {
	url := "http://" + net.JoinHostPort(s.service.Spec.ClusterIP, "80")
	if err := s.reached(ctx, client, url); err != nil {
		return fmt.Errorf("before there is a policy: %w", err)
	}
	policies := s.client.NetworkingV1().NetworkPolicies(s.namespace)
	_, err = policies.Create(ctx, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "friends-only"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": server}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": friend}},
			}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a NetworkPolicy: %w", err)
	}
	err = s.denied(ctx, client, url)
	if err == nil {
		err = s.reached(ctx, friend, url)
	}
	return errors.Join(err, s.removePolicy(ctx, url, func() error {
		return policies.Delete(context.WithoutCancel(ctx), "friends-only", metav1.DeleteOptions{})
	}))
}

var ciliumPolicies = schema.GroupVersionResource{Group: "cilium.io", Version: "v2", Resource: "ciliumnetworkpolicies"}

// ciliumNetworkPolicy lets clients reach the cluster's DNS and nothing else. A plain NetworkPolicy can't select it by
// name.
func ciliumNetworkPolicy(ctx context.Context, s *scene) error {
	url := "http://" + net.JoinHostPort(s.service.Spec.ClusterIP, "80")
	policies := s.dynamic.Resource(ciliumPolicies).Namespace(s.namespace)
	_, err := policies.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
		"metadata": map[string]any{"name": "names-only"},
		"spec": map[string]any{
			"endpointSelector": map[string]any{"matchLabels": map[string]any{"app": client}},
			"egress": []any{map[string]any{"toEndpoints": []any{map[string]any{"matchLabels": map[string]any{
				"k8s:io.kubernetes.pod.namespace": metav1.NamespaceSystem, "k8s:k8s-app": "kube-dns",
			}}}}},
		},
	}}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return &skipError{"the network is not Cilium"}
	}
	if err != nil {
		return fmt.Errorf("creating a CiliumNetworkPolicy: %w", err)
	}
	err = s.denied(ctx, client, url)
	if err == nil {
		err = s.reached(ctx, friend, url)
	}
	if err == nil {
		err = eventually(ctx, patience, "the cluster's DNS answers a Pod whose policy allows it",
			func(ctx context.Context) error {
				_, err := s.ask(ctx, s.pods[client][0], "resolve", "-t", answerTime.String(), server)
				return err
			})
	}
	return errors.Join(err, s.removePolicy(ctx, url, func() error {
		return policies.Delete(context.WithoutCancel(ctx), "names-only", metav1.DeleteOptions{})
	}))
}

// removePolicy removes a policy and waits until clients get answers again, as the next feature expects.
func (s *scene) removePolicy(ctx context.Context, url string, remove func() error) error {
	if err := remove(); err != nil {
		return fmt.Errorf("removing the policy: %w", err)
	}
	if err := s.reached(ctx, client, url); err != nil {
		return fmt.Errorf("after the policy was removed: %w", err)
	}
	return nil
}
