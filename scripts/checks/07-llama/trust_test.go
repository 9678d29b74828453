// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
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
			const expected = "the APIService has a caBundle, " +
				"by which the API server verifies the server's certificate, and no insecureSkipTLSVerify"
			if skip, _, _ := unstructured.NestedBool(object.Object, "spec", "insecureSkipTLSVerify"); skip {
				v.Fail(v.t, expected,
					"insecureSkipTLSVerify is true: the API server trusts any server at the address of the Service",
					"APIService "+apiService)
			}
			if textOf(object.Object, "spec", "caBundle") == "" {
				v.Fail(v.t, expected, "caBundle is not set", "APIService "+apiService)
			}
			// In the run the grader has issued the certificate. This one is the certificate with which config/default would
			// serve.
			if names := v.certificateNames(); len(names) > 0 && !slices.ContainsFunc(names, serviceName.MatchString) {
				v.Fail(v.t, "a Certificate in config/certmanager has the DNS name SERVICE.NAMESPACE.svc, "+
					"by which the API server verifies the server",
					"the DNS names are "+strings.Join(names, ", "), certManagerFolder)
			}
			v.injectsAuthority()
		}))).Feature()
}

// certManagerFolder contains the objects of cert-manager, where kubebuilder puts them. A submission may do without it.
const certManagerFolder = "config/certmanager/"

// serviceName is the name of a Service that the API server expects in a certificate. Kustomize may still have to
// replace parts of it.
var serviceName = regexp.MustCompile(`^[^.]+\.[^.]+\.svc$`)

// certificateNames returns the DNS names of Services in the Certificates of the submission.
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

// believed reports whether the server accepted a client's claimed identity.
func believed(a answer) bool {
	return a.err == nil && a.code != http.StatusUnauthorized && a.code != http.StatusForbidden
}

func frontProxy() types.Feature {
	return features.New("the front proxy").
		Assess("its certificate is believed, and no other", check.Assess(step(func(v visit) {
			if !v.direct() {
				return // every request passes through the API server here
			}
			const expected = "X-Remote-User is believed only with a client certificate of the front proxy's authority; " +
				"otherwise the answer is 401 or 403"
			anyone := v.asker(nil)
			for _, path := range []string{
				llamas(ns), llamas(""), llamas(ns) + "?watch=true&timeoutSeconds=1", llama(carla.namespace, carla.name),
				pods(ns), root, "/apis", "/openapi/v3",
			} {
				if a := anyone.send(v.ctx, http.MethodGet, path, nil, admin...); believed(a) && a.code != http.StatusNotFound {
					v.fail(a, expected,
						"without any certificate, a client that claims to be in system:masters is believed: the answer is "+a.summary())
				}
			}
			for _, c := range v.impostors(v.frontProxyName()) {
				if a := v.asker(c.certificate).send(v.ctx, http.MethodGet, llamas(ns), nil, admin...); believed(a) {
					v.fail(a, expected,
						"with "+c.what+", a client that claims to be in system:masters is believed: the answer is "+a.summary())
				}
			}
			if p, ok := v.proxy(); ok {
				v.want(p.send(v.ctx, http.MethodGet, llamas(ns), nil, admin...),
					"with the front proxy's certificate X-Remote-User is believed", http.StatusOK)
				if a := p.send(v.ctx, http.MethodGet, llamas(ns), nil); believed(a) {
					v.fail(a, "a request in which the front proxy names no user is refused with 401 or 403",
						"the answer is "+a.summary())
				}
			}
			for _, path := range []string{"/healthz", "/livez", "/readyz"} {
				v.want(anyone.send(v.ctx, http.MethodGet, path, nil),
					"GET "+path+" answers 200 without a certificate and a user, as the kubelet asks", http.StatusOK)
			}
		}))).
		Assess("its authority and names change", check.Assess(step(visit.renewFrontProxy))).
		Assess("the server's account may read them", check.Assess(step(visit.bindsAccount))).Feature()
}

// renewPatience is how long a server may take to see a change of the front proxy: it may read the ConfigMap every ten
// seconds. The rest is for a busy machine.
const renewPatience = 25 * time.Second

// frontProxyConfig is the ConfigMap that describes the front proxy. authorityKey and namesKey are keys in it.
const (
	frontProxyConfig = "extension-apiserver-authentication"
	authorityKey     = "requestheader-client-ca-file"
	namesKey         = "requestheader-allowed-names"
)

// renewFrontProxy fails the check unless the server trusts a second authority and a second name of the front proxy for
// as long as they are in the ConfigMap, and does not treat an unreadable list of names as an empty one, which allows
// all. It does not change the ConfigMap of a cluster that others use.
func (v visit) renewFrontProxy() {
	v.t.Helper()
	if !v.direct() || v.Server.FrontProxyCert == "" || v.Shared {
		return
	}
	const name = "operator-labs-renewed"
	ca, err := certificates.NewAuthority(name)
	v.OK(v.t, "making a certificate authority", err)
	renewed, stranger := v.signedBy(ca, name), v.signedBy(ca, name+"-stranger")
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
	add := func(authority, names string) error {
		return set(v.ctx, strings.TrimSuffix(config.Data[authorityKey], "\n")+"\n"+authority, names)
	}
	v.OK(v.t, "adding an authority of the front proxy", add(string(ca.PEM), names))
	v.eventually("within ten seconds the server trusts an authority and a name of the front proxy "+
		"that are added to the ConfigMap "+frontProxyConfig,
		renewPatience, func() (string, bool) {
			a := renewed()
			return "the answer is " + a.summary(), a.code == http.StatusOK
		})
	if a := stranger(); believed(a) && len(allowed) > 0 {
		v.fail(a,
			"a certificate of the front proxy's authority with a name that is not in "+namesKey+" is refused with 401 or 403",
			"the answer is "+a.summary())
	}
	if len(allowed) > 0 {
		v.allowsNoUnreadableName(renewed, add)
	}
	v.OK(v.t, "removing an authority of the front proxy", restore(v.ctx))
	v.trustsAsBefore(renewed)
}

// signedBy returns a function that sends a request with a certificate of an authority. Each request opens a connection,
// because a server may verify the certificate of a connection only once.
func (v visit) signedBy(ca *certificates.Authority, name string) func() answer {
	v.t.Helper()
	pair, err := ca.Client(name)
	v.OK(v.t, "making a certificate", err)
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	v.OK(v.t, "making a certificate", err)
	return v.reconnecting(v.transport(&certificate))
}

// reconnecting returns a function that sends a request over a new connection.
func (v visit) reconnecting(over *http.Transport) func() answer {
	return func() answer {
		over.CloseIdleConnections()
		return v.askerOver(over).send(v.ctx, http.MethodGet, llamas(ns), nil, admin...)
	}
}

// allowsNoUnreadableName fails the check if the server believes a certificate with any name while the list of allowed
// names can't be read. It may then refuse all certificates, or keep the last list that it could read. The same change
// of the ConfigMap replaces the authority of renewed by another one, so a server of either kind refuses renewed as soon
// as it knows of the change.
func (v visit) allowsNoUnreadableName(renewed func() answer, set func(authority, names string) error) {
	v.t.Helper()
	const name, unreadable = "operator-labs-unreadable", "not-json"
	ca, err := certificates.NewAuthority(name)
	v.OK(v.t, "making a certificate authority", err)
	stranger := v.signedBy(ca, name)
	refused := func() {
		v.t.Helper()
		if a := stranger(); believed(a) {
			v.fail(a, "while "+namesKey+" is no JSON list, a certificate of the front proxy's authority with another name "+
				"is refused with 401 or 403", fmt.Sprintf("while it is %s, the answer is %s", unreadable, a.summary()))
		}
	}
	v.OK(v.t, "making the names of the front proxy unreadable", set(string(ca.PEM), unreadable))
	v.eventually("within ten seconds the server no longer trusts an authority of the front proxy "+
		"that is replaced in the ConfigMap "+frontProxyConfig+": 401 or 403",
		renewPatience, func() (string, bool) {
			refused()
			a := renewed()
			return "the answer is " + a.summary(), a.err == nil && !believed(a)
		})
	refused()
}

// trustsAsBefore fails the check unless the server no longer trusts renewed, whose authority was removed, and trusts
// the front proxy, which it may have refused while the list of names could not be read. The API server may have noticed
// that as well, and would then refuse the requests of later checks for a while.
func (v visit) trustsAsBefore(renewed func() answer) {
	v.t.Helper()
	over, _ := v.proxyTransport()
	own := v.reconnecting(over)
	v.eventually("within ten seconds the server no longer trusts an authority of the front proxy "+
		"that is removed from the ConfigMap "+frontProxyConfig+" (401 or 403), and trusts the one that is there (200)",
		renewPatience, func() (string, bool) {
			a, b := renewed(), own()
			return fmt.Sprintf("the answer is %s, and that to the front proxy is %s", a.summary(), b.summary()),
				a.err == nil && !believed(a) && b.code == http.StatusOK
		})
	v.answers("the API server reaches the server after the ConfigMap " + frontProxyConfig + " was restored")
}

// frontProxyName returns the name in the front proxy's certificate, as the cluster publishes it to all servers. If the
// cluster allows any name, it returns one of ours.
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

// grantPatience is how long a right may take to take effect: a server may reuse an answer about a right for cachedFor.
// The rest is for a busy machine.
const grantPatience = cachedFor + 15*time.Second

// grant gives a user verbs on a resource, in a namespace, or in all if it is empty. The right is removed after the
// check.
func (v visit) grant(user, namespace, group, resource string, verbs ...string) {
	v.t.Helper()
	v.bind(fmt.Sprintf("llama-checks-%s-%s", user, resource), namespace, []rbacv1.Subject{subject("User", user)},
		rule(group, resource, verbs...))
}

// rule returns a rule that allows verbs on a resource.
func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// subject returns a User or a Group.
func subject(kind, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: kind, APIGroup: "rbac.authorization.k8s.io", Name: name}
}

// bind gives rights to subjects, in a namespace, or in all if it is empty. The rights are removed after the check.
func (v visit) bind(name, namespace string, subjects []rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	v.t.Helper()
	metadata := ours(name)
	rbac := v.typed.RbacV1()
	if namespace == "" {
		_, err := rbac.ClusterRoles().Create(v.ctx,
			&rbacv1.ClusterRole{ObjectMeta: metadata, Rules: rules}, metav1.CreateOptions{})
		v.granted(err)
		_, err = rbac.ClusterRoleBindings().Create(v.ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metadata, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
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
		ObjectMeta: metadata,
		Subjects:   subjects,
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: name},
	}, metav1.CreateOptions{})
	v.granted(err)
}

func (v visit) granted(err error) {
	v.t.Helper()
	if !apierrors.IsAlreadyExists(err) {
		v.OK(v.t, "granting a right", err)
	}
}

// action is a request for which a user needs the right to a verb.
type action struct {
	verb, method, path string
	body               any
}

// actions returns requests for each verb on llamas. Those that write are not sent if they are allowed.
func actions() []action {
	return []action{
		{"get", http.MethodGet, llama(ns, "guarded"), nil},
		{"list", http.MethodGet, llamas(ns), nil},
		{"list", http.MethodGet, llamas(""), nil},
		{"watch", http.MethodGet, llamas(ns) + "?watch=true&timeoutSeconds=1", nil},
		{"watch", http.MethodGet, llamas(ns) + "?watch=1&timeoutSeconds=1", nil},
		{"watch", http.MethodGet, llamas("") + "?watch=true&timeoutSeconds=1", nil},
		{"create", http.MethodPost, llamas(ns), newLlama("smuggled", 100, 1.5)},
		{"update", http.MethodPut, llama(ns, "guarded"), newLlama("guarded", 1, 1)},
		{"patch", http.MethodPatch, llama(ns, "guarded"), `{"spec":{"weight":1}}`},
		{"delete", http.MethodDelete, llama(ns, "guarded"), nil},
		{"deletecollection", http.MethodDelete, llamas(ns), nil},
	}
}

// headers returns the headers of an action, after those of its user.
func (d action) headers(user ...string) []string {
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
				ask, by = p.send, "X-Remote-User" // directly: the API server would refuse them by itself
			}
			v.create(ns, newLlama("guarded", 100, 1.5))
			for _, d := range actions() {
				a := ask(v.ctx, d.method, d.path, d.body, d.headers(by, "nobody-special")...)
				if a.code != http.StatusForbidden || !a.isStatus("Forbidden") {
					v.fail(a, "a user without rights gets 403 with the reason Forbidden for the verb "+d.verb,
						"the answer is "+a.summary())
				}
			}
		}))).
		Assess("and who has the right", check.Assess(step(func(v visit) {
			p, ok := v.proxy()
			if !ok {
				return
			}
			v.grant("shepherd", ns, group, "llamas", "get", "list")
			v.bind("llama-checks-flock", ns, []rbacv1.Subject{subject("Group", "flock")}, rule(group, "llamas", "list"))
			v.bind("llama-checks-foreigner", ns, []rbacv1.Subject{subject("User", "foreigner")},
				rule("other.example.com", "llamas", "get", "list"), rule(group, "farmpods", "get", "list"))
			one := rule(group, "llamas", "get")
			one.ResourceNames = []string{"guarded"}
			v.bind("llama-checks-keeper", ns, []rbacv1.Subject{subject("User", "keeper")}, one)
			v.eventually("a user whom a Role allows to list llamas in a namespace may do so", grantPatience,
				func() (string, bool) {
					a := p.send(v.ctx, http.MethodGet, llamas(ns), nil, as("shepherd")...)
					return "the answer is " + a.summary(), a.code == http.StatusOK
				})
			v.want(p.send(v.ctx, http.MethodGet, llama(ns, "guarded"), nil, as("shepherd")...),
				"a Role with get and list allows a get", http.StatusOK)
			v.want(p.send(v.ctx, http.MethodGet, llamas(otherNS), nil, as("shepherd")...),
				"the Role holds in its namespace only: 403 in another one", http.StatusForbidden)
			v.want(p.send(v.ctx, http.MethodGet, llama(otherNS, "guarded"), nil, as("shepherd")...),
				"the Role holds in its namespace only: 403 in another one", http.StatusForbidden)
			v.want(p.send(v.ctx, http.MethodGet, llamas(""), nil, as("shepherd")...),
				"the Role holds in its namespace only: 403 for all namespaces", http.StatusForbidden)
			// A server without FarmPods answers 404.
			v.want(p.send(v.ctx, http.MethodGet, pods(ns), nil, as("shepherd")...),
				"a Role for llamas allows no list of FarmPods: 403", http.StatusForbidden, http.StatusNotFound)
			for _, d := range actions() {
				if d.verb != "get" && d.verb != "list" {
					v.want(p.send(v.ctx, d.method, d.path, d.body, d.headers(as("shepherd")...)...),
						"a Role with get and list allows no "+d.verb+": 403", http.StatusForbidden)
				}
			}
			for _, groups := range [][]string{{"others", "flock"}, {"flock", "others"}, {"flock"}} {
				v.eventually(fmt.Sprintf("a user in the groups %s may list llamas, since a Role allows it to the group flock "+
					"(each group has an X-Remote-Group of its own)", strings.Join(groups, " and ")),
					grantPatience, func() (string, bool) {
						a := p.send(v.ctx, http.MethodGet, llamas(ns), nil, as("member", groups...)...)
						return "the answer is " + a.summary(), a.code == http.StatusOK
					})
			}
			v.want(p.send(v.ctx, http.MethodGet, llamas(ns), nil, as("member", "others")...),
				"without the group flock the same user may not list llamas: 403", http.StatusForbidden)
			v.want(p.send(v.ctx, http.MethodGet, llamas(ns), nil, as("flock")...),
				"a user with the name of a group does not have its rights: 403", http.StatusForbidden)
			v.eventually("a user whom a Role allows to get the llama guarded may do so", grantPatience, func() (string, bool) {
				a := p.send(v.ctx, http.MethodGet, llama(ns, "guarded"), nil, as("keeper")...)
				return "the answer is " + a.summary(), a.code == http.StatusOK
			})
			v.want(p.send(v.ctx, http.MethodGet, llama(ns, "another"), nil, as("keeper")...),
				"a Role for the llama guarded (resourceNames) allows no get of another one: 403", http.StatusForbidden)
			v.want(v.send(v.ctx, http.MethodGet, llama(ns, "guarded"), nil),
				"what was refused has changed nothing: the llama is still there", http.StatusOK)
			for _, path := range []string{llamas(ns), llama(ns, "guarded")} {
				v.want(p.send(v.ctx, http.MethodGet, path, nil, as("foreigner")...),
					"a Role for llamas of another API group and for FarmPods allows no llamas of this group: 403",
					http.StatusForbidden)
			}
		}))).
		Assess("each verb by itself", check.Assess(step(visit.eachVerbAlone))).
		Assess("a right that is withdrawn", check.Assess(step(visit.withdrawnRightIsRefused))).Feature()
}
