// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/checks/deployed"
)

// fieldsOf parses the output of a script.
func fieldsOf(output string) (map[string]string, error) {
	fields := map[string]string{}
	return fields, yaml.Unmarshal([]byte(output), &fields)
}

// evidence returns the output of a script.
func (f *finding) evidence() []string {
	lines := []string{fmt.Sprintf("%s %s %s printed:", f.script, f.namespace, f.certificate)}
	for line := range strings.Lines(strings.TrimSpace(f.output)) {
		lines = append(lines, strings.TrimRight(line, "\n"))
	}
	if f.exit >= 0 { // otherwise it was killed
		lines = append(lines, fmt.Sprintf("its exit code was %d", f.exit))
	}
	return lines
}

// recordLimit is how long our watches may lag behind a script, which reads from the API server itself. The usual lag is
// some milliseconds.
const recordLimit = 5 * time.Second

// recorded waits until something is known, for recordLimit at most.
func (v visit) recorded(known func() bool) {
	v.t.Helper()
	for began := time.Now(); !known() && time.Since(began) < recordLimit; {
		v.Pause(v.ctx, v.t, deployed.Poll)
	}
}

// judge compares fields with their correct values, of which there may be several. It reports what is wrong, but not the
// correct value.
func (v visit) judge(f *finding, expected string, right func() map[string][]string) {
	v.t.Helper()
	fields := v.output(f, expected)
	var mistakes []string
	v.recorded(func() bool {
		mistakes = compared(fields, right())
		return len(mistakes) == 0
	})
	if len(mistakes) > 0 {
		v.Fail(v.t, expected, strings.Join(mistakes, "; "), f.evidence()...)
	}
}

// compared returns which fields are not as they should be.
func compared(fields map[string]string, right map[string][]string) (mistakes []string) {
	for _, field := range sorted(right) {
		switch got := fields[field]; {
		case slices.Contains(right[field], got):
		case got == "":
			mistakes = append(mistakes, field+" has no answer")
		default:
			mistakes = append(mistakes, fmt.Sprintf("%s is not %s", field, got))
		}
	}
	return mistakes
}

func sorted(right map[string][]string) (fields []string) {
	for field := range right {
		fields = append(fields, field)
	}
	slices.Sort(fields)
	return fields
}

// orderOf returns the Order of a case, and its Challenge. They come from the record, because the Challenge is gone by
// now. If cert-manager has ordered twice, as it does when the request no longer matches the key, orderOf returns the
// order that the script has reported, if that is one of them.
func (v visit) orderOf(f *finding, speaks func(placed) bool) placed {
	v.t.Helper()
	var all []placed
	v.recorded(func() bool {
		all = v.record.placed(f.namespace, f.certificate)
		return len(all) > 0
	})
	if len(all) == 0 {
		v.Fail(v.t, "cert-manager orders the certificate of the case "+f.certificate, "no Challenge was seen", "none")
	}
	return all[max(0, slices.IndexFunc(all, speaks))]
}

// found returns the order of a case that find.sh has reported.
func (v visit) found(f *finding) placed {
	v.t.Helper()
	fields, _ := fieldsOf(f.output)
	speaks := func(p placed) bool { return p.challenge.GetName() == fields["challenge"] }
	// An Order can have two Challenges, for example when cert-manager's cache does not have the first one yet. The name of
	// the Order alone is therefore not enough.
	if !slices.ContainsFunc(v.record.placed(f.namespace, f.certificate), speaks) {
		speaks = func(p placed) bool { return p.order.GetName() == fields["order"] }
	}
	return v.orderOf(f, speaks)
}

// chain returns the correct fields about the order of a case.
func (v visit) chain(f *finding) map[string][]string {
	v.t.Helper()
	found := v.found(f)
	order, challenge := found.order, found.challenge
	domain, token := text(challenge, "spec", "dnsName"), text(challenge, "spec", "token")
	return map[string][]string{
		"order": {order.GetName()}, "challenge": {challenge.GetName()}, "domain": {domain}, "token": {token},
		"key": {text(challenge, "spec", "key")}, "url": {"http://" + domain + "/.well-known/acme-challenge/" + token},
	}
}

// solver returns the correct fields about the solver of a case.
func (v visit) solver(f *finding) map[string][]string {
	v.t.Helper()
	challenge := v.found(f).challenge
	created := func(kind string) []string {
		return names(v.record.owned(kind, f.namespace, "Challenge", challenge.GetName()))
	}
	return map[string][]string{
		"pod":     created("Pod"),
		"service": created("Service"),
		"ingress": created("Ingress"),
		"owner":   {"Challenge/" + challenge.GetName()},
	}
}

// ordered returns the correct fields about the object that has ordered.
func (v visit) ordered(kind, name, home string, read func() (*unstructured.Unstructured, error)) map[string][]string {
	v.t.Helper()
	issuer, err := read()
	v.OK(v.t, "reading the issuer of a case", err)
	return map[string][]string{
		"issuer": {kind + "/" + name}, "account": {text(issuer, "status", "acme", "uri")},
		"accountKey": {home + "/" + text(issuer, "spec", "acme", "privateKeySecretRef", "name")},
	}
}

func orderFound(v visit) {
	const expected = findFile + " names the Order and the Challenge of the certificate, " +
		"the token, the key authorization and the URL that is asked"
	v.output(v.cases.scoop, expected)
	v.judge(v.cases.scoop, expected, func() map[string][]string { return v.chain(v.cases.scoop) })
}

func solverFound(v visit) {
	const expected = findFile + " names the Pod, the Service and an Ingress that serve the challenge, and what owns them"
	v.output(v.cases.scoop, expected)
	v.judge(v.cases.scoop, expected, func() map[string][]string { return v.solver(v.cases.scoop) })
}

func accountFound(v visit) {
	const expected = findFile + " names the issuer, its account at the ACME server, and the Secret with the account's key"
	v.judge(v.cases.scoop, expected, func() map[string][]string {
		return v.ordered("ClusterIssuer", shared, "cert-manager", func() (*unstructured.Unstructured, error) {
			return v.Dynamic.Resource(clusterIssuers).Get(v.ctx, shared, metav1.GetOptions{})
		})
	})
}

func secondOrder(v visit) {
	const expected = findFile + " is as right about another order, by an Issuer of the namespace, " +
		"which has an account and a key of its own"
	v.output(v.cases.sundae, expected)
	v.judge(v.cases.sundae, expected, func() map[string][]string {
		right := v.chain(v.cases.sundae)
		maps.Copy(right, v.solver(v.cases.sundae))
		maps.Copy(right, v.ordered("Issuer", own, second, func() (*unstructured.Unstructured, error) {
			return v.Dynamic.Resource(issuers).Namespace(second).Get(v.ctx, own, metav1.GetOptions{})
		}))
		return right
	})
}

var issuers = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "issuers"}

// acmeError is the type of an ACME server's error. (RFC 8555, section 6.7)
var acmeError = regexp.MustCompile(`urn:ietf:params:acme:error:[A-Za-z]+`)

func failingName(v visit) {
	const expected = whyFile + " gives the state and the reason of the Challenge of a name that fails, " +
		"and the type of the ACME server's error, or nothing if nobody has asked it"
	for _, f := range []*finding{v.cases.unresolved, v.cases.refused} {
		got := v.output(f, expected)
		reason := strings.TrimSpace(got["reason"])
		var state string
		var found bool
		v.recorded(func() bool {
			challenge := v.orderOf(f, func(p placed) bool {
				_, found := v.record.state(p.challenge.GetUID(), reason)
				return found
			}).challenge
			// The words of a reason change over time. Any reason that the Challenge has reported at any time is correct.
			state, found = v.record.state(challenge.GetUID(), reason)
			return found
		})
		if !found || !strings.Contains(reason, f.certificate) {
			v.Fail(v.t, expected, fmt.Sprintf("the reason is not %q", reason), f.evidence()...)
		}
		v.judge(f, expected, func() map[string][]string {
			return map[string][]string{"state": {state}, "acme": {acmeError.FindString(reason)}}
		})
	}
}
