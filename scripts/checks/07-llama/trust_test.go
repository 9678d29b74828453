// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

func verified() types.Feature {
	return features.New("TLS").
		Assess("the API server knows whom it asks", check.Assess(step(func(v visit) {
			object, err := v.dynamic.Resource(apiServiceResource).Get(v.ctx, apiService, metav1.GetOptions{})
			v.OK(v.t, "reading the APIService", err)
			const expected = "the APIService has a caBundle, by which the API server verifies the server's certificate, and no insecureSkipTLSVerify"
			if skip, _, _ := unstructured.NestedBool(object.Object, "spec", "insecureSkipTLSVerify"); skip {
				v.Fail(v.t, expected, "insecureSkipTLSVerify is true: whoever answers at the Service's address is believed", "APIService "+apiService)
			}
			if textOf(object.Object, "spec", "caBundle") == "" {
				v.Fail(v.t, expected, "caBundle is not set", "APIService "+apiService)
			}
		}))).Feature()
}

// believed are the codes of an answer to somebody who is not believed.
func believed(a answer) bool {
	return a.err == nil && a.code != http.StatusUnauthorized && a.code != http.StatusForbidden
}

func frontProxy() types.Feature {
	return features.New("the front proxy").
		Assess("its certificate is believed, and no other", check.Assess(step(func(v visit) {
			if !v.direct() {
				return // nobody gets past the API server here
			}
			const expected = "X-Remote-User is believed only with a client certificate of the front proxy's authority; otherwise the answer is 401 or 403"
			if a := v.asker(nil).send(v.ctx, http.MethodGet, llamas(here), nil, admin...); believed(a) {
				v.fail(a, expected, "without any certificate, who says to be of system:masters is believed: the answer is "+a.told())
			}
			wrong, err := stranger(v.frontProxyName())
			v.OK(v.t, "making a certificate", err)
			if a := v.asker(wrong).send(v.ctx, http.MethodGet, llamas(here), nil, admin...); believed(a) {
				v.fail(a, expected, "with a certificate of an unknown authority in the name of the front proxy, who says to be of system:masters is believed: the answer is "+a.told())
			}
			if p, ok := v.proxy(); ok {
				v.want(p.send(v.ctx, http.MethodGet, llamas(here), nil, admin...), "with the front proxy's certificate X-Remote-User is believed", http.StatusOK)
			}
		}))).Feature()
}

// frontProxyName is the name in the front proxy's certificate, as the cluster says it to all servers. Where it allows any name, it is one of
// ours.
func (v visit) frontProxyName() string {
	v.t.Helper()
	config, err := v.typed.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(v.ctx, "extension-apiserver-authentication", metav1.GetOptions{})
	v.OK(v.t, "reading how the front proxy can be recognized", err)
	var names []string
	if err := json.Unmarshal([]byte(config.Data["requestheader-allowed-names"]), &names); err != nil || len(names) == 0 {
		return "front-proxy-client"
	}
	return names[0]
}

// grantPatience is for a right to take effect: authorization is asked of caches.
const grantPatience = 12 * time.Second

// grant gives a user verbs on a resource, in a namespace, or in all if it is empty. It is gone after the check.
func (v visit) grant(user, namespace, group, resource string, verbs ...string) {
	v.t.Helper()
	name := fmt.Sprintf("llama-checks-%s-%s", user, resource)
	rules := []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}}
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: user}}
	metadata := ours(name)
	rbac := v.typed.RbacV1()
	if namespace == "" {
		_, err := rbac.ClusterRoles().Create(v.ctx, &rbacv1.ClusterRole{ObjectMeta: metadata, Rules: rules}, metav1.CreateOptions{})
		v.granted(err)
		_, err = rbac.ClusterRoleBindings().Create(v.ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metadata, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		}, metav1.CreateOptions{})
		v.granted(err)
		v.t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
			defer cancel()
			_ = rbac.ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})
			_ = rbac.ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})
		})
		return
	}
	_, err := rbac.Roles(namespace).Create(v.ctx, &rbacv1.Role{ObjectMeta: metadata, Rules: rules}, metav1.CreateOptions{})
	v.granted(err)
	_, err = rbac.RoleBindings(namespace).Create(v.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metadata, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: name},
	}, metav1.CreateOptions{})
	v.granted(err)
}

func (v visit) granted(err error) {
	v.t.Helper()
	if !apierrors.IsAlreadyExists(err) {
		v.OK(v.t, "granting a right", err)
	}
}

func authorization() types.Feature {
	return features.New("authorization").
		Assess("each verb", check.Assess(step(func(v visit) {
			ask, by := v.send, "Impersonate-User"
			if p, ok := v.proxy(); ok {
				ask, by = p.send, "X-Remote-User" // past the API server, which refuses them by itself
			}
			v.make(here, newLlama("guarded", 100, 1.5))
			for _, c := range []struct {
				verb, method, path string
				body               any
			}{
				{"get", http.MethodGet, llama(here, "guarded"), nil},
				{"list", http.MethodGet, llamas(here), nil},
				{"list", http.MethodGet, llamas(""), nil},
				{"watch", http.MethodGet, llamas(here) + "?watch=true&timeoutSeconds=1", nil},
				{"create", http.MethodPost, llamas(here), newLlama("smuggled", 100, 1.5)},
				{"update", http.MethodPut, llama(here, "guarded"), newLlama("guarded", 1, 1)},
				{"patch", http.MethodPatch, llama(here, "guarded"), `{"spec":{"weight":1}}`},
				{"delete", http.MethodDelete, llama(here, "guarded"), nil},
				{"deletecollection", http.MethodDelete, llamas(here), nil},
			} {
				headers := []string{by, "nobody-special"}
				if c.verb == "patch" {
					headers = append(headers, "Content-Type", "application/merge-patch+json")
				}
				a := ask(v.ctx, c.method, c.path, c.body, headers...)
				if a.code != http.StatusForbidden || !a.isStatus("Forbidden") {
					v.fail(a, "a user without rights gets 403 with the reason Forbidden for the verb "+c.verb, "the answer is "+a.told())
				}
			}
		}))).
		Assess("and who has the right", check.Assess(step(func(v visit) {
			p, ok := v.proxy()
			if !ok {
				return
			}
			v.grant("shepherd", here, group, "llamas", "get", "list")
			v.eventually("a user whom a Role allows to list llamas in a namespace may do so", grantPatience, func() (string, bool) {
				a := p.send(v.ctx, http.MethodGet, llamas(here), nil, as("shepherd")...)
				return "the answer is " + a.told(), a.code == http.StatusOK
			})
			v.want(p.send(v.ctx, http.MethodGet, llamas(there), nil, as("shepherd")...), "the Role holds in its namespace only: 403 in another one", http.StatusForbidden)
			v.want(p.send(v.ctx, http.MethodGet, llamas(""), nil, as("shepherd")...), "the Role holds in its namespace only: 403 for all namespaces", http.StatusForbidden)
			v.want(p.send(v.ctx, http.MethodDelete, llama(here, "guarded"), nil, as("shepherd")...), "a Role with get and list allows no delete: 403", http.StatusForbidden)
		}))).Feature()
}

// How much a client tries to send, and what a server may have read of it when it refuses: more than any llama weighs.
const (
	hugeBody   = 1 << 30
	takenLimit = 64 << 20
	watchLimit = 10_000
)

// How long a list may take while a user has too many watches: so long, or so many times as long as before. Before, it
// tells how busy the machine is.
const (
	servedWithin = 3 * time.Second
	servedFactor = 20
)

// flood is a body that goes on and on, up to the limit.
type flood struct{ sent atomic.Int64 }

func (f *flood) Read(into []byte) (int, error) {
	if f.sent.Load() >= takenLimit {
		return 0, io.ErrUnexpectedEOF
	}
	for i := range into {
		into[i] = 'x'
	}
	if f.sent.Load() == 0 {
		copy(into, `{"kind":"`)
	}
	f.sent.Add(int64(len(into)))
	return len(into), nil
}

// copiedSize is how much the copies of a JSON patch add to a llama. A server without a limit has several times as
// much in memory.
const copiedSize = 32 << 20

// doublingPatch makes a value of 512 KB twice as long, again and again, and removes it in the end. So the llama is
// valid and unchanged where nothing limits the copies.
func doublingPatch() string {
	const size = 512 << 10
	patch := fmt.Sprintf(`[{"op":"add","path":"/wool","value":["%s"]}`, strings.Repeat("x", size))
	for copied := size; copied <= copiedSize; copied *= 2 {
		patch += `,{"op":"copy","from":"/wool","path":"/wool/-"}`
	}
	return patch + `,{"op":"remove","path":"/wool"}]`
}

func limits() types.Feature {
	return features.New("limits").
		Assess("1 GB", check.Assess(step(func(v visit) {
			body := &flood{}
			ctx, cancel := context.WithTimeout(v.ctx, requestTimeout)
			defer cancel()
			client, host, headers := v.http, v.host, []string(nil)
			if p, ok := v.proxy(); ok {
				client, host, headers = p.client, p.host, admin
			}
			request, err := newRequest(ctx, host, http.MethodPost, llamas(here), "", headers...)
			v.OK(v.t, "making a request", err)
			request.Body, request.ContentLength, request.GetBody = io.NopCloser(body), hugeBody, nil
			response, err := client.Do(request)
			if err == nil {
				response.Body.Close()
				if response.StatusCode == http.StatusRequestEntityTooLarge || response.StatusCode == http.StatusBadRequest {
					return
				}
			}
			if sent := body.sent.Load(); sent >= takenLimit {
				v.Fail(v.t, "a body of 1 GB is refused with 413 before much of it is read", fmt.Sprintf("the server has taken %d MB of it and goes on", sent>>20))
			}
			if err == nil {
				v.Fail(v.t, "a body of 1 GB is refused with 413", fmt.Sprintf("the answer is %d %s", response.StatusCode, http.StatusText(response.StatusCode)))
			}
		}))).
		Assess("a JSON patch of copies", check.Assess(step(func(v visit) {
			v.make(here, newLlama("woolly", 100, 1.5))
			jsonPatch := string(apitypes.JSONPatchType)
			a := v.send(v.ctx, http.MethodPatch, llama(here, "woolly"), doublingPatch(), "Content-Type", jsonPatch)
			const expected = "a JSON patch with copies of %d MB is refused (422, 413 or 400), or no JSON patch is served (415)"
			v.want(a, fmt.Sprintf(expected, copiedSize>>20), http.StatusUnprocessableEntity,
				http.StatusRequestEntityTooLarge, http.StatusBadRequest, http.StatusUnsupportedMediaType)
		}))).
		Assess("10,000 watches", check.Assess(step(func(v visit) {
			p, ok := v.proxy()
			if !ok {
				return // through the API server they would be a load on it
			}
			v.grant("crowd", here, group, "llamas", "get", "list", "watch")
			v.eventually("a user whom a Role allows to list llamas in a namespace may do so", grantPatience, func() (string, bool) {
				a := p.send(v.ctx, http.MethodGet, llamas(here), nil, as("crowd")...)
				return "the answer is " + a.told(), a.code == http.StatusOK
			})
			others := func(expected string) (a answer, took time.Duration) {
				v.t.Helper()
				began := time.Now()
				a = v.want(p.send(v.ctx, http.MethodGet, llamas(here), nil, admin...), expected, http.StatusOK)
				return a, time.Since(began)
			}
			_, usual := others("llamas can be listed")
			ctx, cancel := context.WithCancel(v.ctx)
			defer cancel()
			var open, refused atomic.Int64
			var enough atomic.Pointer[answer] // an answer of 429
			var group sync.WaitGroup
			for range 16 {
				group.Go(func() {
					for refused.Load() == 0 && open.Load() < watchLimit {
						w := followBy(ctx, p.client, p.host, llamas(here), "&resourceVersion=0", as("crowd")...)
						switch {
						case w.refused == nil:
							open.Add(1)
						case w.refused.code == http.StatusTooManyRequests:
							enough.Store(w.refused)
							refused.Add(1)
						case w.refused.err != nil:
							refused.Add(1)
						default:
							return
						}
					}
				})
			}
			group.Wait()
			if refused.Load() == 0 {
				v.Fail(v.t, fmt.Sprintf("a user who begins %d watches is told that these are too many (429)", watchLimit), fmt.Sprintf("%d were begun, and none was refused", open.Load()))
			}
			v.Measure("watches of one user until the first 429", float64(open.Load()), "")
			if a := enough.Load(); a != nil && a.header.Get("Retry-After") == "" {
				v.fail(*a, "429 has a header Retry-After, which says after how many seconds to try again", "it has none")
			}
			if w := followBy(ctx, p.client, p.host, llamas(here), "&resourceVersion=0", admin...); w.refused != nil {
				v.fail(*w.refused, "while one user has too many watches, other users can watch", "the answer to a watch of another user is "+w.refused.told())
			}
			if a, took := others("meanwhile others are served"); took > max(servedWithin, servedFactor*usual) {
				v.fail(a, "meanwhile others are served as ever", fmt.Sprintf("a list took %s", took.Round(time.Second/10)))
			}
		}))).
		Assess("it still runs", check.Assess(step(func(v visit) {
			v.eventually("after that the server answers", startPatience, v.touching(func() (string, bool) {
				a := v.send(v.ctx, http.MethodGet, llamas(here), nil)
				return "the answer is " + strings.TrimSpace(a.told()), a.code == http.StatusOK
			}))
		}))).Feature()
}
