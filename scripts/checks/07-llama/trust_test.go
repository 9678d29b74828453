// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
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
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/scripts/checks/check"
)

func verified() types.Feature {
	return features.New("TLS").
		Assess("the API server knows whom it asks", check.Assess(step(func(v visit) {
			object, err := v.dynamic.Resource(apiServiceResource).Get(v.ctx, apiService, metav1.GetOptions{})
			v.OK(v.t, "reading the APIService", err)
			const expected = "the APIService has a caBundle, by which the API server verifies the server's certificate, and no insecureSkipTLSVerify"
			if skip, _, _ := unstructured.NestedBool(object.Object, "spec", "insecureSkipTLSVerify"); skip {
				v.Fail(v.t, expected, "insecureSkipTLSVerify is true: the API server trusts any server at the address of the Service", "APIService "+apiService)
			}
			if textOf(object.Object, "spec", "caBundle") == "" {
				v.Fail(v.t, expected, "caBundle is not set", "APIService "+apiService)
			}
			// In the run the certificate is one of the grader's. This is the one with which config/default would serve.
			if names := v.certificateNames(); len(names) > 0 && !slices.ContainsFunc(names, serviceName.MatchString) {
				v.Fail(v.t, "a Certificate in config/certmanager has the DNS name SERVICE.NAMESPACE.svc, by which the API server verifies the server",
					"the DNS names are "+strings.Join(names, ", "), certManagerFolder)
			}
			v.injectsAuthority()
		}))).Feature()
}

// certManagerFolder has the objects of cert-manager, where kubebuilder puts them. A submission may do without it.
const certManagerFolder = "config/certmanager/"

// serviceName is the name of a Service that the API server expects in a certificate. Kustomize may still have to replace parts of it.
var serviceName = regexp.MustCompile(`^[^.]+\.[^.]+\.svc$`)

// certificateNames are the DNS names of Services in the Certificates of the submission.
func (v visit) certificateNames() (names []string) {
	var list struct{ Resources []string }
	content, err := v.Submission.File(v.ctx, certManagerFolder+"kustomization.yaml")
	if err != nil || yaml.Unmarshal(content, &list) != nil {
		return nil
	}
	for _, file := range list.Resources {
		content, err := v.Submission.File(v.ctx, certManagerFolder+file)
		if err != nil {
			continue
		}
		for document := range strings.SplitSeq(string(content), "\n---") {
			var object struct {
				Kind string
				Spec struct{ DNSNames []string }
			}
			if yaml.Unmarshal([]byte(document), &object) != nil || object.Kind != "Certificate" {
				continue
			}
			for _, name := range object.Spec.DNSNames {
				if strings.HasSuffix(name, ".svc") || strings.Contains(name, ".svc.") {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// believed reports whether the server believed who a client says it is.
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
			anyone := v.asker(nil)
			for _, path := range []string{llamas(here), llamas(""), llamas(here) + "?watch=true&timeoutSeconds=1", llama(carla.namespace, carla.name), pods(here), root, "/apis", "/openapi/v3"} {
				if a := anyone.send(v.ctx, http.MethodGet, path, nil, admin...); believed(a) && a.code != http.StatusNotFound {
					v.fail(a, expected, "without any certificate, a client that claims to be in system:masters is believed: the answer is "+a.told())
				}
			}
			for _, c := range v.impostors(v.frontProxyName()) {
				if a := v.asker(c.certificate).send(v.ctx, http.MethodGet, llamas(here), nil, admin...); believed(a) {
					v.fail(a, expected, "with "+c.what+", a client that claims to be in system:masters is believed: the answer is "+a.told())
				}
			}
			if p, ok := v.proxy(); ok {
				v.want(p.send(v.ctx, http.MethodGet, llamas(here), nil, admin...), "with the front proxy's certificate X-Remote-User is believed", http.StatusOK)
				if a := p.send(v.ctx, http.MethodGet, llamas(here), nil); believed(a) {
					v.fail(a, "a request in which the front proxy names no user is refused with 401 or 403", "the answer is "+a.told())
				}
			}
			for _, path := range []string{"/healthz", "/livez", "/readyz"} {
				v.want(anyone.send(v.ctx, http.MethodGet, path, nil), "GET "+path+" answers 200 without a certificate and a user, as the kubelet asks", http.StatusOK)
			}
		}))).
		Assess("its authority and names change", check.Assess(step(visit.renewFrontProxy))).
		Assess("the server's account may read them", check.Assess(step(visit.bindsAccount))).Feature()
}

// renewPatience is for a server to learn of a change of the front proxy: it may read the ConfigMap again every ten seconds. The rest is for a busy
// machine.
const renewPatience = 25 * time.Second

// frontProxyConfig is the ConfigMap that describes the front proxy, and authorityKey and namesKey are keys in it.
const (
	frontProxyConfig = "extension-apiserver-authentication"
	authorityKey     = "requestheader-client-ca-file"
	namesKey         = "requestheader-allowed-names"
)

// renewFrontProxy fails the check unless the server trusts a second authority and a second name of the front proxy for as long as they are in the
// ConfigMap. It does not change the ConfigMap of a cluster that others use.
func (v visit) renewFrontProxy() {
	v.t.Helper()
	if !v.direct() || v.Server.FrontProxyCert == "" || v.Shared {
		return
	}
	const name = "operator-labs-renewed"
	ca, err := certificates.NewAuthority(name)
	v.OK(v.t, "making a certificate authority", err)
	// Each request opens a connection, since a server may verify the certificate of a connection only once.
	client := func(name string) func() answer {
		pair, err := ca.Client(name)
		v.OK(v.t, "making a certificate", err)
		certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
		v.OK(v.t, "making a certificate", err)
		transport := v.transport(&certificate)
		return func() answer {
			transport.CloseIdleConnections()
			return v.askerOver(transport).send(v.ctx, http.MethodGet, llamas(here), nil, admin...)
		}
	}
	renewed, stranger := client(name), client(name+"-stranger")
	configs := v.typed.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	config, err := configs.Get(v.ctx, frontProxyConfig, metav1.GetOptions{})
	v.OK(v.t, "reading the ConfigMap of the front proxy", err)
	names := config.Data[namesKey]
	var allowed []string
	if json.Unmarshal([]byte(names), &allowed) == nil && len(allowed) > 0 { // an empty list allows all names
		content, err := json.Marshal(append(allowed, name))
		v.OK(v.t, "adding a name of the front proxy", err)
		names = string(content)
	}
	set := func(ctx context.Context, authority, names string) error {
		patch, err := json.Marshal(map[string]any{"data": map[string]any{authorityKey: authority, namesKey: names}})
		if err == nil {
			_, err = configs.Patch(ctx, frontProxyConfig, apitypes.MergePatchType, patch, metav1.PatchOptions{})
		}
		return err
	}
	restore := func(ctx context.Context) error { return set(ctx, config.Data[authorityKey], config.Data[namesKey]) }
	v.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(v.ctx), requestTimeout)
		defer cancel()
		if err := restore(ctx); err != nil {
			v.t.Logf("restoring the ConfigMap of the front proxy: %v", err)
		}
	})
	v.OK(v.t, "adding an authority of the front proxy", set(v.ctx, strings.TrimSuffix(config.Data[authorityKey], "\n")+"\n"+string(ca.PEM), names))
	v.eventually("within ten seconds the server trusts an authority and a name of the front proxy that are added to the ConfigMap "+frontProxyConfig, renewPatience, func() (string, bool) {
		a := renewed()
		return "the answer is " + a.told(), a.code == http.StatusOK
	})
	if a := stranger(); believed(a) && len(allowed) > 0 {
		v.fail(a, "a certificate of the front proxy's authority with a name that is not in "+namesKey+" is refused with 401 or 403", "the answer is "+a.told())
	}
	v.OK(v.t, "removing an authority of the front proxy", restore(v.ctx))
	v.eventually("within ten seconds the server no longer trusts an authority of the front proxy that is removed from the ConfigMap "+frontProxyConfig+": 401 or 403", renewPatience, func() (string, bool) {
		a := renewed()
		return "the answer is " + a.told(), a.err == nil && !believed(a)
	})
}

// frontProxyName is the name in the front proxy's certificate, as the cluster says it to all servers. Where it allows any name, it is one of
// ours.
func (v visit) frontProxyName() string {
	v.t.Helper()
	config, err := v.typed.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(v.ctx, frontProxyConfig, metav1.GetOptions{})
	v.OK(v.t, "reading the ConfigMap of the front proxy", err)
	var names []string
	if err := json.Unmarshal([]byte(config.Data[namesKey]), &names); err != nil || len(names) == 0 {
		return "front-proxy-client"
	}
	return names[0]
}

// grantPatience is for a right to take effect: authorization is asked of caches.
const grantPatience = 12 * time.Second

// grant gives a user verbs on a resource, in a namespace, or in all if it is empty. It is gone after the check.
func (v visit) grant(user, namespace, group, resource string, verbs ...string) {
	v.t.Helper()
	v.bind(fmt.Sprintf("llama-checks-%s-%s", user, resource), namespace, []rbacv1.Subject{subject("User", user)}, rule(group, resource, verbs...))
}

// rule allows verbs on a resource.
func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// subject is a User or a Group.
func subject(kind, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: kind, APIGroup: "rbac.authorization.k8s.io", Name: name}
}

// bind gives rights to subjects, in a namespace, or in all if it is empty. They are gone after the check.
func (v visit) bind(name, namespace string, subjects []rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	v.t.Helper()
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

// deed is a request for which a user needs the right to a verb.
type deed struct {
	verb, method, path string
	body               any
}

// deeds are requests for each verb on llamas. Where they are allowed, those that write are not sent.
func deeds() []deed {
	return []deed{
		{"get", http.MethodGet, llama(here, "guarded"), nil},
		{"list", http.MethodGet, llamas(here), nil},
		{"list", http.MethodGet, llamas(""), nil},
		{"watch", http.MethodGet, llamas(here) + "?watch=true&timeoutSeconds=1", nil},
		{"watch", http.MethodGet, llamas(here) + "?watch=1&timeoutSeconds=1", nil},
		{"watch", http.MethodGet, llamas("") + "?watch=true&timeoutSeconds=1", nil},
		{"create", http.MethodPost, llamas(here), newLlama("smuggled", 100, 1.5)},
		{"update", http.MethodPut, llama(here, "guarded"), newLlama("guarded", 1, 1)},
		{"patch", http.MethodPatch, llama(here, "guarded"), `{"spec":{"weight":1}}`},
		{"delete", http.MethodDelete, llama(here, "guarded"), nil},
		{"deletecollection", http.MethodDelete, llamas(here), nil},
	}
}

// headers are those of a deed, after those of its user.
func (d deed) headers(user ...string) []string {
	if d.verb == "patch" {
		return append(slices.Clone(user), "Content-Type", string(apitypes.MergePatchType))
	}
	return user
}

func authorization() types.Feature {
	return features.New("authorization").
		Assess("each verb", check.Assess(step(func(v visit) {
			ask, by := v.send, "Impersonate-User"
			if p, ok := v.proxy(); ok {
				ask, by = p.send, "X-Remote-User" // past the API server, which refuses them by itself
			}
			v.make(here, newLlama("guarded", 100, 1.5))
			for _, d := range deeds() {
				a := ask(v.ctx, d.method, d.path, d.body, d.headers(by, "nobody-special")...)
				if a.code != http.StatusForbidden || !a.isStatus("Forbidden") {
					v.fail(a, "a user without rights gets 403 with the reason Forbidden for the verb "+d.verb, "the answer is "+a.told())
				}
			}
		}))).
		Assess("and who has the right", check.Assess(step(func(v visit) {
			p, ok := v.proxy()
			if !ok {
				return
			}
			v.grant("shepherd", here, group, "llamas", "get", "list")
			v.bind("llama-checks-flock", here, []rbacv1.Subject{subject("Group", "flock")}, rule(group, "llamas", "list"))
			v.bind("llama-checks-foreigner", here, []rbacv1.Subject{subject("User", "foreigner")}, rule("other.example.com", "llamas", "get", "list"), rule(group, "farmpods", "get", "list"))
			one := rule(group, "llamas", "get")
			one.ResourceNames = []string{"guarded"}
			v.bind("llama-checks-keeper", here, []rbacv1.Subject{subject("User", "keeper")}, one)
			v.eventually("a user whom a Role allows to list llamas in a namespace may do so", grantPatience, func() (string, bool) {
				a := p.send(v.ctx, http.MethodGet, llamas(here), nil, as("shepherd")...)
				return "the answer is " + a.told(), a.code == http.StatusOK
			})
			v.want(p.send(v.ctx, http.MethodGet, llama(here, "guarded"), nil, as("shepherd")...), "a Role with get and list allows a get", http.StatusOK)
			v.want(p.send(v.ctx, http.MethodGet, llamas(there), nil, as("shepherd")...), "the Role holds in its namespace only: 403 in another one", http.StatusForbidden)
			v.want(p.send(v.ctx, http.MethodGet, llama(there, "guarded"), nil, as("shepherd")...), "the Role holds in its namespace only: 403 in another one", http.StatusForbidden)
			v.want(p.send(v.ctx, http.MethodGet, llamas(""), nil, as("shepherd")...), "the Role holds in its namespace only: 403 for all namespaces", http.StatusForbidden)
			// A server without FarmPods answers 404.
			v.want(p.send(v.ctx, http.MethodGet, pods(here), nil, as("shepherd")...), "a Role for llamas allows no list of FarmPods: 403", http.StatusForbidden, http.StatusNotFound)
			for _, d := range deeds() {
				if d.verb != "get" && d.verb != "list" {
					v.want(p.send(v.ctx, d.method, d.path, d.body, d.headers(as("shepherd")...)...), "a Role with get and list allows no "+d.verb+": 403", http.StatusForbidden)
				}
			}
			for _, groups := range [][]string{{"others", "flock"}, {"flock", "others"}, {"flock"}} {
				v.eventually(fmt.Sprintf("a user in the groups %s may list llamas, since a Role allows it to the group flock (each group has an X-Remote-Group of its own)", strings.Join(groups, " and ")), grantPatience, func() (string, bool) {
					a := p.send(v.ctx, http.MethodGet, llamas(here), nil, as("member", groups...)...)
					return "the answer is " + a.told(), a.code == http.StatusOK
				})
			}
			v.want(p.send(v.ctx, http.MethodGet, llamas(here), nil, as("member", "others")...), "without the group flock the same user may not list llamas: 403", http.StatusForbidden)
			v.want(p.send(v.ctx, http.MethodGet, llamas(here), nil, as("flock")...), "a user with the name of a group does not have its rights: 403", http.StatusForbidden)
			v.eventually("a user whom a Role allows to get the llama guarded may do so", grantPatience, func() (string, bool) {
				a := p.send(v.ctx, http.MethodGet, llama(here, "guarded"), nil, as("keeper")...)
				return "the answer is " + a.told(), a.code == http.StatusOK
			})
			v.want(p.send(v.ctx, http.MethodGet, llama(here, "another"), nil, as("keeper")...), "a Role for the llama guarded (resourceNames) allows no get of another one: 403", http.StatusForbidden)
			v.want(v.send(v.ctx, http.MethodGet, llama(here, "guarded"), nil), "what was refused has changed nothing: the llama is still there", http.StatusOK)
			for _, path := range []string{llamas(here), llama(here, "guarded")} {
				v.want(p.send(v.ctx, http.MethodGet, path, nil, as("foreigner")...), "a Role for llamas of another API group and for FarmPods allows no llamas of this group: 403", http.StatusForbidden)
			}
		}))).
		Assess("each verb by itself", check.Assess(step(visit.eachVerbAlone))).
		Assess("a right that is withdrawn", check.Assess(step(visit.withdrawnRightIsRefused))).Feature()
}

// How much a client tries to send, and what a server may have read of it when it refuses: more than any llama weighs.
const (
	hugeBody  = 1 << 30
	largeBody = 4 << 20
	// allowedBody is less than the limit of 3 MiB.
	allowedBody = 5 << 19
	takenLimit  = 64 << 20
	watchLimit  = 10_000
)

// watchesOfOne is how many watches a user may have at the same time: see the task. refusedWatches is how many watches are refused before that.
const (
	watchesOfOne   = 100
	refusedWatches = 120
)

// crowd are the watches of one user.
type crowd struct {
	follow  func(query string) watch
	mutex   sync.Mutex
	watches []watch
}

// begin begins a watch, and returns the answer to one that is refused.
func (c *crowd) begin(query string) (refused *answer) {
	w := c.follow(query)
	if w.refused != nil {
		return w.refused
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.watches = append(c.watches, w)
	return nil
}

// begun is how many watches were begun.
func (c *crowd) begun() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.watches)
}

// open is how many watches have not ended yet.
func (c *crowd) open() (count int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, w := range c.watches {
		if len(w.ended) == 0 {
			count++
		}
	}
	return count
}

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
		Assess("each verb that has a body", check.Assess(step(func(v visit) {
			v.make(here, newLlama("fed", 100, 1.5))
			send := v.directly()
			padding := strings.Repeat(" ", largeBody)
			for _, c := range []struct {
				verb, method, path, mediaType string
				body                          any
			}{
				{"create", http.MethodPost, llamas(here), "application/json", newLlama("overfed", 100, 1.5)},
				{"update", http.MethodPut, llama(here, "fed"), "application/json", newLlama("fed", 1, 1)},
				{"patch", http.MethodPatch, llama(here, "fed"), string(apitypes.MergePatchType), map[string]any{"spec": map[string]any{"weight": 1}}},
				{"delete", http.MethodDelete, llama(here, "fed"), "application/json", map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}},
				{"deletecollection", http.MethodDelete, llamas(here), "application/json", map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}},
			} {
				content, err := json.Marshal(c.body)
				v.OK(v.t, "making a body", err)
				// The JSON is right, however much white space is in it. A connection that breaks is a refusal, too.
				a := send(c.method, c.path, "{"+padding+string(content[1:]), "Content-Type", c.mediaType)
				if a.err == nil && a.code != http.StatusRequestEntityTooLarge {
					v.fail(a, fmt.Sprintf("the body of a %s with more than 3 MiB is refused with 413, here one of %d MiB", c.verb, largeBody>>20), "the answer is "+a.told())
				}
			}
			content, err := json.Marshal(newLlama("well-fed", 100, 1.5))
			v.OK(v.t, "making a body", err)
			if a := send(http.MethodPost, llamas(here), "{"+padding[:allowedBody]+string(content[1:])); a.err == nil {
				v.want(a, fmt.Sprintf("the body of a create with %.1f MiB, which is less than 3 MiB, is accepted: 201", float64(allowedBody)/(1<<20)), http.StatusCreated)
			}
			a := v.want(v.send(v.ctx, http.MethodGet, llama(here, "fed"), nil), "a llama is still there after requests with too large bodies", http.StatusOK)
			if fmt.Sprint(numberOf(a.object(), "spec", "weight")) != "100" {
				v.fail(a, "requests with too large bodies change nothing", fmt.Sprintf("the weight is %v and was 100", numberOf(a.object(), "spec", "weight")))
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
			v.grant("crowd", here, group, "farmpods", "watch")
			v.grant("crowd", here, "", "pods", "watch")
			v.allowed("crowd", group, "farmpods", "watch")
			v.allowed("crowd", "", "pods", "watch")
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
			visitors := &crowd{follow: func(query string) watch {
				return followBy(ctx, p.client, p.host, llamas(here), query, as("crowd")...)
			}}
			// Watches that are refused do not count. Those that are served after all do.
			refusals := []string{"&resourceVersion=none", "&resourceVersion=1&resourceVersionMatch=None", "&sendInitialEvents=true", "&fieldSelector=spec.shoes%3D4"}
			atOnce(refusedWatches, func(i int) answer {
				visitors.begin(refusals[i%len(refusals)])
				return answer{}
			})
			if visitors.begun() < watchesOfOne {
				v.eventually(fmt.Sprintf("a user whose %d watches were refused can begin another one", refusedWatches), eventPatience, func() (string, bool) {
					if refused := visitors.begin("&resourceVersion=0"); refused != nil {
						return "the answer is " + refused.told(), false
					}
					return "", true
				})
			}
			var refused atomic.Bool
			var enough atomic.Pointer[answer] // an answer of 429
			fill := func(int) answer {
				for !refused.Load() && visitors.begun() < watchLimit {
					a := visitors.begin("&resourceVersion=0")
					switch {
					case a == nil:
					case a.code == http.StatusTooManyRequests:
						enough.Store(a)
						refused.Store(true)
					case a.err != nil:
						refused.Store(true)
					default:
						return *a
					}
				}
				return answer{}
			}
			atOnce(16, fill)
			begun := visitors.begun()
			if !refused.Load() {
				v.Fail(v.t, fmt.Sprintf("the server refuses a user's watch with 429 when the user has begun %d", watchLimit), fmt.Sprintf("it has served %d and refused none", begun))
			}
			v.Measure("watches of one user until the first 429", float64(begun), "")
			if a := enough.Load(); a != nil && begun < watchesOfOne {
				v.fail(*a, fmt.Sprintf("a user may have %d watches at the same time, and more are refused with 429", watchesOfOne), fmt.Sprintf("%d were begun, and the next was refused", begun))
			}
			if a := enough.Load(); a != nil && a.header.Get("Retry-After") == "" {
				v.fail(*a, "429 has a header Retry-After, which says after how many seconds to try again", "it has none")
			}
			if w := followBy(ctx, p.client, p.host, llamas(here), "&resourceVersion=0", admin...); w.refused != nil {
				v.fail(*w.refused, "while one user has too many watches, other users can watch", "the answer to a watch of another user is "+w.refused.told())
			}
			// A watch that the server has ended does not count, and we may see its end later.
			v.eventually(fmt.Sprintf("more than %d watches of one user at the same time are refused with 429", watchesOfOne), eventPatience, func() (string, bool) {
				open := visitors.open()
				return fmt.Sprintf("%d are open", open), open <= watchesOfOne
			})
			refused.Store(false)
			fill(0) // what has ended has made room
			// Without FarmPods the answer is 404.
			if w := followBy(ctx, p.client, p.host, pods(here), "", as("crowd")...); w.refused == nil {
				v.Fail(v.t, fmt.Sprintf("a user with %d watches of llamas gets 429 for a watch of FarmPods, since all watches of a user count", watchesOfOne), "it was begun")
			}
			if a, took := others("meanwhile others are served"); took > max(servedWithin, servedFactor*usual) {
				v.fail(a, "meanwhile others are served as ever", fmt.Sprintf("a list took %s", took.Round(time.Second/10)))
			}
			cancel()
			v.eventually("after a user has ended all watches, the user can begin another one", eventPatience, func() (string, bool) {
				w := followBy(v.ctx, p.client, p.host, llamas(here), "&resourceVersion=0", as("crowd")...)
				defer w.cancel()
				if w.refused != nil {
					return "the answer is " + w.refused.told(), false
				}
				return "", true
			})
		}))).
		Assess("it still runs", check.Assess(step(func(v visit) {
			v.eventually("after that the server answers", startPatience, v.touching(func() (string, bool) {
				a := v.send(v.ctx, http.MethodGet, llamas(here), nil)
				return "the answer is " + strings.TrimSpace(a.told()), a.code == http.StatusOK
			}))
		}))).Feature()
}
