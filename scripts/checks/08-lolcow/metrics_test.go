// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/reach"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/protocol"
)

// freePort returns the address of a port of this machine at which no process listens now.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// metricsPort is the port at which an operator in a Pod, which has all ports of the Pod, serves its metrics.
const metricsPort = 8443

// pod returns the Pod that runs with an account. Nil: there is none, because the operator is a process of this machine.
func (v visit) pod(as rbacv1.Subject) *corev1.Pod {
	v.t.Helper()
	pods, err := v.herd.Client.CoreV1().Pods(as.Namespace).List(v.ctx, metav1.ListOptions{})
	v.OK(v.t, "asking for the operator's Pod", err)
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning &&
			pod.Spec.ServiceAccountName == as.Name {
			return pod
		}
	}
	return nil
}

// serveMetrics starts the operator so that it serves its metrics, and returns a function that requests them. It reaches
// a Pod through the API server, as `kubectl port-forward` does.
func (v visit) serveMetrics(flags ...string) (ask func(token string) (code int, body string, err error)) {
	v.t.Helper()
	account := v.account()
	if v.pod(account) == nil {
		address, err := freePort()
		v.OK(v.t, "finding a port", err)
		v.restartAs(protocol.Start{Flags: append(flags, "--metrics-bind-address="+address)})
		return func(token string) (int, string, error) { return scrape(v.ctx, address, token) }
	}
	v.restartAs(protocol.Start{Flags: append(flags, fmt.Sprintf("--metrics-bind-address=:%d", metricsPort))})
	return func(token string) (int, string, error) {
		pod := v.pod(account)
		if pod == nil {
			return 0, "", errors.New("the operator's Pod does not run")
		}
		tunnel, err := reach.Pod(v.ctx, v.Config, pod.Namespace, pod.Name, metricsPort)
		if err != nil {
			return 0, "", err
		}
		defer tunnel.Close()
		return scrape(v.ctx, tunnel.Address, token)
	}
}

// scrape requests the metrics. The server's certificate is self-signed.
func scrape(ctx context.Context, address, token string) (code int, body string, err error) {
	client := &http.Client{Timeout: askTimeout, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it has no other certificate than one of its own
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	content, err := limited.ReadAll(answer.Body, metricsLimit)
	return answer.StatusCode, string(content), err
}

const (
	askTimeout = 5 * time.Second
	// metricsLimit is the maximum size of the metrics page, in bytes. The metrics of controller-runtime have 100 kB.
	metricsLimit = 8 << 20
	// gaugeName is the metric of the task.
	gaugeName = "lolcow_objects"
	// metricsPatience is how long the metrics server may take to listen, and the gauge to follow a change.
	metricsPatience = 10 * time.Second
)

// gaugeValue returns the value of a gauge for a state. False: there is none.
func gaugeValue(body, state string) (float64, bool) {
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, gaugeName+"{") && strings.Contains(line, fmt.Sprintf("=%q", state)) {
			fields := strings.Fields(line)
			value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			return value, err == nil
		}
	}
	return 0, false
}

// states are the conditions that the gauge counts, by the value of its label.
var states = map[string]string{"available": availableType, "progressing": progressingType, "degraded": degradedType}

// wrongGauge returns how the gauge differs from the Lolcows. Empty: it does not.
func (h *herd) wrongGauge(body string) (wrong string) {
	for state, condition := range states {
		is, exists := gaugeValue(body, state)
		if want := h.count(condition); !exists || is != want {
			return fmt.Sprintf("%s{state=%q} is %v (there: %t), and %v Lolcows have the condition %s",
				gaugeName, state, is, exists, want, condition)
		}
	}
	return ""
}

// scraper creates an account that may read the operator's metrics. The operator may ask the API server about that
// right.
func (v visit) scraper() (token string) {
	v.t.Helper()
	v.grant(v.roleOf("config/rbac/metrics_auth_role.yaml"), v.account())
	token, scraper := v.token("lolcow-scraper")
	v.grant([]rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}, scraper)
	return token
}

// scrapes requests the metrics until they are as wanted.
func (v visit) scrapes(expected string, scrape func() (code int, body string, err error),
	wanted func(body string) (wrong string),
) {
	v.t.Helper()
	for began := time.Now(); ; v.Pause(v.ctx, v.t, pagePoll) {
		code, body, err := scrape()
		observed := "no server answers at the address of --metrics-bind-address: " + fmt.Sprint(err)
		switch {
		case err != nil:
		case code != http.StatusOK:
			observed = fmt.Sprintf("a client that may get /metrics is answered %d %s", code, http.StatusText(code))
		default:
			observed = wanted(body)
		}
		if observed == "" {
			return
		}
		if time.Since(began) > metricsPatience {
			v.Fail(v.t, expected, observed)
		}
	}
}

// count returns how many Lolcows have a condition that is True.
func (h *herd) count(condition string) (n float64) {
	for _, name := range h.All(allNamespaces...) {
		if object, exists := h.Get(name); exists {
			if is, _ := workload.ConditionOf(object, condition); is.Status == "True" {
				n++
			}
		}
	}
	return n
}

func gauge() types.Feature {
	return features.New("the metrics tell how many Lolcows there are").
		Assess("to clients that may ask, without a series for each", check.Assess(assess(func(v visit) {
			token := v.scraper()
			stranger, _ := v.token("lolcow-stranger")
			scraped := v.serveMetrics()
			cows := []*cow{v.create(v.herd.draw(paddock)), v.create(v.herd.draw(paddock))}
			fine := v.create(v.herd.draw(paddock))
			v.asSpecified(fine)
			v.scaleToZero(fine) // its state differs from that of the others
			scrape := func() (int, string, error) { return scraped(token) }
			follows := func(body string) string {
				for _, c := range cows {
					if strings.Contains(body, c.Name) {
						return fmt.Sprintf("there is a series with the name of %s: one more for each Lolcow that there ever was", c.Name)
					}
				}
				return v.herd.wrongGauge(body)
			}
			const expected = gaugeName + `{state="available|progressing|degraded"} ` +
				"is the number of Lolcows whose condition is True, and no label has the name of one"
			v.conditions(cows[0], "no Pod is let in", statusPatience, workload.Wanted{Of: degradedType, Status: "True"})
			v.conditions(cows[1], "no Pod is let in", statusPatience, workload.Wanted{Of: degradedType, Status: "True"})
			v.scrapes(expected, scrape, follows)
			v.remove(cows[0])
			v.scrapes(expected+", also when one is gone", scrape, follows)
			for client, token := range map[string]string{
				"a client without a token":         "",
				"an account without a right to it": stranger,
			} {
				v.refused(client, func() (int, error) {
					code, _, err := scraped(token)
					return code, err
				})
			}
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			return errors.Join(restartWithDefaults(ctx, c), withdraw(ctx, herdOf(ctx)))
		})).Feature()
}

// refused fails unless a client is denied the metrics. On a busy machine a request may get no answer in time, and the
// operator, which asks the API server who the client is, may answer with its own error (500). In these cases refused
// tries again.
func (v visit) refused(client string, ask func() (code int, err error)) {
	v.t.Helper()
	for began := time.Now(); ; v.Pause(v.ctx, v.t, pagePoll) {
		code, err := ask()
		unknown := err != nil || code >= http.StatusInternalServerError
		over := time.Since(began) > metricsPatience
		switch {
		case unknown && !over:
			continue
		case err != nil:
			v.OK(v.t, "asking for the metrics", err)
		case code != http.StatusUnauthorized && code != http.StatusForbidden:
			v.Fail(v.t, client+" is refused the metrics: 401 or 403",
				fmt.Sprintf("the answer is %d %s", code, http.StatusText(code)),
				"metricsserver.Options: SecureServing, and FilterProvider: filters.WithAuthenticationAndAuthorization")
		}
		return
	}
}
