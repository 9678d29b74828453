// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/checks/byhand"
	"lva.io/operators/scripts/checks/deployed"
	"lva.io/operators/scripts/grading/audit"
)

const (
	issuerName   = "lab"
	shop         = "shop.lab.test"
	shopSecret   = "shop-tls"
	shopTitle    = "<title>The shop</title>"
	answersFile  = "detective/answers.yaml"
	ingressClass = "lab"
)

var clusterIssuers = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "clusterissuers"}

func issuer(v visit) {
	const expected = "the ClusterIssuer lab has an account at the cluster's Pebble, trusts it by its CA, " +
		"and proves by HTTP-01 through Ingresses of the class lab"
	v.accepted(expected, "ClusterIssuer")
	var seen *unstructured.Unstructured
	err := await.Within(v.ctx, readyLimit, deployed.Poll, "the ClusterIssuer "+issuerName,
		func(ctx context.Context) (_ string, err error) {
			if seen, err = v.Dynamic.Resource(clusterIssuers).Get(ctx, issuerName, metav1.GetOptions{}); err != nil {
				return "", err
			}
			if status, message := condition(seen, "Ready"); status != "True" {
				return "it is not Ready: " + message, nil
			}
			return "", nil
		})
	if err != nil {
		v.Fail(v.t, expected, err.Error(), "none")
	}
	if server := text(seen, "spec", "acme", "server"); server != byhand.Directory {
		v.Fail(v.t, expected, "its server is "+server, "none")
	}
	if skips, _, _ := unstructured.NestedBool(seen.Object, "spec", "acme", "skipTLSVerify"); skips {
		v.Fail(v.t, expected, "it has skipTLSVerify, and so trusts any server that answers", "none")
	}
	solvers, _, _ := unstructured.NestedSlice(seen.Object, "spec", "acme", "solvers")
	for _, one := range solvers {
		solver, _ := one.(map[string]any)
		class, _, _ := unstructured.NestedString(solver, "http01", "ingress", "ingressClassName")
		if class == ingressClass {
			return
		}
	}
	v.Fail(v.t, expected,
		fmt.Sprintf("none of its %d solvers uses Ingresses of the class %s", len(solvers), ingressClass), "none")
}

func issued(v visit) {
	const expected = "the Ingress of shop.lab.test makes cert-manager issue a certificate " +
		"for that name into the Secret shop-tls"
	v.accepted(expected, "Ingress")
	err := await.Within(v.ctx, issueLimit, deployed.Poll, "the Certificate",
		func(ctx context.Context) (string, error) {
			certificate, err := v.Dynamic.Resource(certificates).Namespace(byhand.Namespace).
				Get(ctx, shopSecret, metav1.GetOptions{})
			switch {
			case err != nil && strings.Contains(err.Error(), "not found"):
				return "there is no Certificate " + shopSecret, nil
			case err != nil:
				return "", err
			}
			if status, message := condition(certificate, "Ready"); status != "True" {
				return "the Certificate is not Ready: " + message, nil
			}
			return "", nil
		})
	if err != nil {
		v.Fail(v.t, expected, err.Error(), v.reasons(byhand.Namespace)...)
	}
}

// reasons returns the reasons of the Challenges in a namespace.
func (v visit) reasons(namespace string) []string {
	lines := []string{"Challenges:"}
	list, err := v.Dynamic.Resource(challenges).Namespace(namespace).List(v.ctx, metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}
	}
	for _, c := range list.Items {
		lines = append(lines, fmt.Sprintf("%s of %s is %s: %s",
			c.GetName(), text(&c, "spec", "dnsName"), text(&c, "status", "state"), text(&c, "status", "reason")))
	}
	return lines
}

func page(v visit) {
	const expected = "https://shop.lab.test/ shows the shop's page, with a certificate whose chain ends at Pebble's root"
	got := v.eventually(readyLimit, "https://"+shop+"/", expected, func(a answer) bool {
		return a.status == http.StatusOK && strings.Contains(a.body, shopTitle)
	})
	if len(got.chain) < 2 {
		v.Fail(v.t, expected, fmt.Sprintf("the server shows %d certificates, and not its issuer's", len(got.chain)), "none")
	}
}

// answers holds a student's answers.
type answers struct {
	Missing  string `json:"missing"`
	Answered string `json:"answered"`
	Made     string `json:"made"`
	Removed  string `json:"removed"`
}

func explained(v visit) {
	const expected = answersFile + " says what was missing for the page, what answered the challenge, " +
		"and who made and removed the solver of this run"
	content, err := v.suite.Submission.File(v.ctx, answersFile)
	if errors.Is(err, fs.ErrNotExist) {
		v.Fail(v.t, expected, "there is no such file in the submission", "none")
	}
	v.OK(v.t, "reading "+answersFile, err)
	var a answers
	if err := yaml.UnmarshalStrict(content, &a); err != nil {
		v.Fail(v.t, expected, err.Error(), "none")
	}
	v.cases.wait(v)
	created, removed := v.accounts()
	var mistakes []string
	judge := func(field, got string, known map[string]string, right ...string) {
		for _, one := range right {
			if strings.EqualFold(got, one) {
				return
			}
		}
		switch why, ok := known[got]; {
		case got == "":
			mistakes = append(mistakes, field+" has no answer")
		case ok:
			mistakes = append(mistakes, fmt.Sprintf("%s is not %s: %s", field, got, why))
		default:
			mistakes = append(mistakes, fmt.Sprintf("%s is not %s", field, got))
		}
	}
	judge("missing", a.Missing, map[string]string{"Secret/shop-tls": "that came by itself"}, "Service/web")
	judge("answered", a.Answered, map[string]string{
		"Service": "which object owns that Service?", "Ingress": "it leads to the Service, and does not own it",
	}, "Challenge")
	judge("made", a.Made, nil, created)
	judge("removed", a.Removed, map[string]string{
		"system:serviceaccount:kube-system:generic-garbage-collector": "the Challenge still existed, " +
			"so that it had nothing to collect",
	}, removed)
	if len(mistakes) > 0 {
		v.Fail(v.t, expected, strings.Join(mistakes, "; "), mistakes...)
	}
}

// accounts returns the accounts that created and deleted the solvers' Pods in this run, according to the audit log. If
// the log contains only requests of the submission, on a cluster of another organization, cert-manager's own account is
// taken for both.
func (v visit) accounts() (created, removed string) {
	created = "system:serviceaccount:cert-manager:cert-manager"
	removed = created
	for _, e := range v.Audit.Since(0, audit.On("", "pods").And(audit.Writes)) {
		if !strings.HasPrefix(e.Name, "cm-acme-http-solver") || e.Code >= http.StatusMultipleChoices || e.Subresource != "" {
			continue
		}
		if strings.HasPrefix(e.User, "system:node:") {
			continue // the kubelet deletes a Pod that has ended
		}
		switch e.Verb {
		case "create":
			created = e.User
		case "delete":
			removed = e.User
		}
	}
	return created, removed
}
