// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/protocol"
	"lva.io/operators/scripts/checks/reach"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/limited"
)

// What the checks of this file make. Its label lets it be found and removed.
const madeName = "lolcow-checks"

func made(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: madeName, Namespace: namespace, Labels: map[string]string{existing.Label: "true"}}
}

// account is the namespace and the name of the operator's ServiceAccount.
func (v visit) account() rbacv1.Subject {
	v.t.Helper()
	parts := strings.Split(v.OperatorUser(), ":") // system:serviceaccount:NAMESPACE:NAME
	if len(parts) != 4 {
		v.Skip(v.t, "the operator's account is no ServiceAccount")
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: parts[2], Name: parts[3]}
}

// restartAs starts the operator with more flags.
func (v visit) restartAs(how protocol.Start) {
	v.t.Helper()
	v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
	err := v.Operator.StartAs(v.ctx, how)
	switch {
	case errors.Is(err, check.ErrNotAdjustable):
		v.Skip(v.t, protocol.NotAsAPod)
	case errors.Is(err, check.ErrNoSuchFlag):
		v.Fail(v.t, "the operator's program has the flags of its task: "+strings.Join(how.Flags, " "), err.Error())
	}
	v.OK(v.t, "starting the operator with "+strings.Join(how.Flags, " "), err)
}

// asUsual starts the operator again as it was before.
func asUsual(ctx context.Context, c *check.Check) error {
	return errors.Join(c.Operator.Stop(ctx), c.Operator.Start(ctx))
}

// roleOf reads the rules of a role that kubebuilder scaffolds beside the one of the markers.
func (v visit) roleOf(file string) []rbacv1.PolicyRule {
	v.t.Helper()
	content, err := v.Submission.File(v.ctx, file)
	if errors.Is(err, fs.ErrNotExist) {
		v.Fail(v.t, "the submission has "+file, "there is no such file")
	}
	v.OK(v.t, "reading "+file, err)
	var role rbacv1.ClusterRole
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096).Decode(&role); err != nil {
		v.Fail(v.t, file+" is a role in YAML", err.Error())
	}
	return role.Rules
}

// grant gives an account a role for the whole cluster.
func (v visit) grant(rules []rbacv1.PolicyRule, to rbacv1.Subject) {
	v.t.Helper()
	name := made("")
	name.Name += "-" + to.Name
	_, err := v.herd.Client.RbacV1().ClusterRoles().Create(v.ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}, metav1.CreateOptions{})
	v.OK(v.t, "making a role", ignoreThere(err))
	_, err = v.herd.Client.RbacV1().ClusterRoleBindings().Create(v.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, Subjects: []rbacv1.Subject{to}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
	}, metav1.CreateOptions{})
	v.OK(v.t, "binding a role", ignoreThere(err))
}

// withdraw takes all away that grant gave.
func withdraw(ctx context.Context, h *herd) error {
	ours := metav1.ListOptions{LabelSelector: existing.Label + "=true"}
	bindings, err := h.Client.RbacV1().ClusterRoleBindings().List(ctx, ours)
	if err != nil {
		return fmt.Errorf("asking for bindings: %w", err)
	}
	for _, binding := range bindings.Items {
		if !strings.HasPrefix(binding.Name, madeName+"-") {
			continue
		}
		err = errors.Join(err, workload.IgnoreGone(h.Client.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, deleteNow)),
			workload.IgnoreGone(h.Client.RbacV1().ClusterRoles().Delete(ctx, binding.Name, deleteNow)))
	}
	return err
}

func ignoreThere(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// token makes an account, and a token of it.
func (v visit) token(name string) (string, rbacv1.Subject) {
	v.t.Helper()
	accounts := v.herd.Client.CoreV1().ServiceAccounts(stable)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{existing.Label: "true"}}}
	_, err := accounts.Create(v.ctx, account, metav1.CreateOptions{})
	v.OK(v.t, "making an account", ignoreThere(err))
	answer, err := accounts.CreateToken(v.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	v.OK(v.t, "making a token", err)
	return answer.Status.Token, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: stable, Name: name}
}

// freePort is a port of this machine at which nobody listens now.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// metricsPort is where an operator in a Pod, which has its ports to itself, serves its metrics.
const metricsPort = 8443

// pod is the Pod that runs as an account; nil: none does, as the operator is a process of this machine.
func (v visit) pod(as rbacv1.Subject) *corev1.Pod {
	v.t.Helper()
	pods, err := v.herd.Client.CoreV1().Pods(as.Namespace).List(v.ctx, metav1.ListOptions{})
	v.OK(v.t, "asking for the operator's Pod", err)
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && pod.Spec.ServiceAccountName == as.Name {
			return pod
		}
	}
	return nil
}

// serveMetrics starts the operator so that it serves its metrics. The result asks for them: a Pod is reached through the API server, as
// `kubectl port-forward` does it.
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
		way, err := reach.Pod(v.ctx, v.Config, pod.Namespace, pod.Name, metricsPort)
		if err != nil {
			return 0, "", err
		}
		defer way.Close()
		return scrape(v.ctx, way.Address, token)
	}
}

// scrape asks for the metrics. The server's certificate is of its own making.
func scrape(ctx context.Context, address, token string) (code int, body string, err error) {
	client := &http.Client{Timeout: askTimeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, //nolint:gosec // it has no other certificate than one of its own
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
	// metricsLimit is how large the page of the metrics may be, in bytes. Those of controller-runtime have 100 kB.
	metricsLimit = 8 << 20
	// gaugeName is the metric of the task.
	gaugeName = "lolcow_objects"
	// metricsPatience is how long the server of the metrics may take to listen, and the gauge to follow.
	metricsPatience = 10 * time.Second
)

// told is what a gauge says for a state; false: it says nothing.
func told(body, state string) (float64, bool) {
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

// counts says how the gauge differs from the Lolcows; empty: it does not.
func (h *herd) counts(body string) (wrong string) {
	for state, of := range states {
		is, there := told(body, state)
		if want := h.count(of); !there || is != want {
			return fmt.Sprintf("%s{state=%q} is %v (there: %t), and %v Lolcows have the condition %s", gaugeName, state, is, there, want, of)
		}
	}
	return ""
}

// scraper is an account that may get the metrics of the operator, which may ask the API server for that.
func (v visit) scraper() (token string) {
	v.t.Helper()
	v.grant(v.roleOf("config/rbac/metrics_auth_role.yaml"), v.account())
	token, scraper := v.token("lolcow-scraper")
	v.grant([]rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}, scraper)
	return token
}

// scrapes asks for the metrics until they are as wanted.
func (v visit) scrapes(expected string, scrape func() (code int, body string, err error), wanted func(body string) (wrong string)) {
	v.t.Helper()
	for began := time.Now(); ; v.Pause(v.ctx, v.t, pagePoll) {
		code, body, err := scrape()
		observed := "nobody answers at the address of --metrics-bind-address: " + fmt.Sprint(err)
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

// count is how many Lolcows have a condition that is True.
func (h *herd) count(of string) (n float64) {
	for _, name := range h.All(spaces...) {
		if object, there := h.Get(name); there {
			if is, _ := workload.ConditionOf(object, of); is.Status == "True" {
				n++
			}
		}
	}
	return n
}

func gauge() types.Feature {
	return features.New("the metrics tell how many Lolcows there are").
		Assess("to those who may ask, without a series for each", check.Assess(assess(func(v visit) {
			token := v.scraper()
			stranger, _ := v.token("lolcow-stranger")
			scraped := v.serveMetrics()
			cows := []*cow{v.make(v.herd.draw(paddock)), v.make(v.herd.draw(paddock))}
			fine := v.make(v.herd.draw(paddock))
			v.asSpecified(fine)
			v.idle(fine) // another state than that of the others
			scrape := func() (int, string, error) { return scraped(token) }
			follows := func(body string) string {
				for _, c := range cows {
					if strings.Contains(body, c.Name) {
						return fmt.Sprintf("there is a series with the name of %s: one more for each Lolcow that there ever was", c.Name)
					}
				}
				return v.herd.counts(body)
			}
			const expected = gaugeName + `{state="available|progressing|degraded"} is the number of Lolcows whose condition is True, and no label has the name of one`
			v.conditions(cows[0], "no Pod is let in", statusPatience, workload.Wanted{Of: degradedType, Status: "True"})
			v.conditions(cows[1], "no Pod is let in", statusPatience, workload.Wanted{Of: degradedType, Status: "True"})
			v.scrapes(expected, scrape, follows)
			v.remove(cows[0])
			v.scrapes(expected+", also when one is gone", scrape, follows)
			for who, token := range map[string]string{"who shows no token": "", "an account without a right to it": stranger} {
				v.refused(who, func() (int, error) {
					code, _, err := scraped(token)
					return code, err
				})
			}
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			return errors.Join(asUsual(ctx, c), withdraw(ctx, herdOf(ctx)))
		})).Feature()
}

// refused fails unless somebody is refused the metrics. On a busy machine a question may have no answer in time, and
// the operator, which asks the API server who that is, may answer with an error of its own (500): then it is asked
// again.
func (v visit) refused(who string, ask func() (code int, err error)) {
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
			v.Fail(v.t, who+" is refused the metrics: 401 or 403", fmt.Sprintf("the answer is %d %s", code, http.StatusText(code)),
				"metricsserver.Options: SecureServing, and FilterProvider: filters.WithAuthenticationAndAuthorization")
		}
		return
	}
}

const (
	// leaseSeconds is how long another operator holds the Lease, unless it gives it back.
	leaseSeconds = 60
	// leasePatience is how long an operator may take to ask for its Lease, and to take one that is free. It asks every
	// 2 to 4.4 s (k8s.io/client-go/tools/leaderelection, JitterFactor), and fills its cache after that.
	leasePatience = 20 * time.Second
)

// leader lets the check be another replica, which holds the Lease.
func leader() types.Feature {
	return features.New("of two operators one works").
		Assess("while another one holds the Lease, it waits", check.Assess(assess(func(v visit) {
			v.begin()
			v.asSpecified(v.herd.withPods()...) // their Pods start while the operator waits for its Lease, which takes some seconds
			account := v.account()
			flags := []string{"--leader-elect", "--leader-election-namespace=" + account.Namespace}
			rules := v.roleOf("config/rbac/leader_election_role.yaml")
			v.grant(rules, account)
			leases := v.herd.Client.CoordinationV1().Leases(account.Namespace)
			began := v.Audit.Now()
			v.restartAs(protocol.Start{Flags: flags})
			asks := func(since audit.Mark) []audit.Event {
				return v.Audit.Since(since, v.ByOperator().And(audit.On("coordination.k8s.io", "leases")))
			}
			name := ""
			v.EventuallyWithin(v.ctx, v.t, "with --leader-elect the operator takes a Lease in its namespace", leasePatience, v.Audit.Changed, func() (string, bool) {
				all := asks(began)
				for _, e := range all {
					if audit.Denied(e) {
						return "it is refused: " + e.Message, false
					}
					if audit.Writes(e) && e.Code < http.StatusMultipleChoices {
						name = e.Name
						return "", true
					}
				}
				return fmt.Sprintf("it has sent %d requests about Leases", len(all)), false
			})
			v.StopQuietly(v.ctx, v.t)
			v.hold(leases.Get, leases.Update, name, "another-operator")
			again := v.Audit.Now()
			// Of one namespace only: its Lease is in the operator's own namespace all the same.
			v.OK(v.t, "starting the operator", v.Operator.StartAs(v.ctx, protocol.Start{Flags: append(flags, "--namespace="+paddock), KeepLeases: true}))
			v.EventuallyWithin(v.ctx, v.t, "the operator asks for its Lease, also with --namespace", leasePatience, v.Audit.Changed, func() (string, bool) {
				return "it has not", len(asks(again)) > 0
			})
			c := v.make(v.herd.draw(paddock))
			v.Pause(v.ctx, v.t, idle)
			if left, none := v.herd.left(c); !none {
				v.Fail(v.t, fmt.Sprintf("while another operator holds the Lease nothing is made for %s", c.Name), left)
			}
			v.hold(leases.Get, leases.Update, name, "")
			v.asSpecifiedWithin(leasePatience, c)
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			return errors.Join(asUsual(ctx, c), withdraw(ctx, herdOf(ctx)))
		})).Feature()
}

// idle is how long an operator without the Lease is watched.
const idle = time.Second

// hold gives the Lease to somebody; to nobody where holder is empty.
func (v visit) hold(
	get func(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error),
	update func(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error), name, holder string,
) {
	v.t.Helper()
	lease, err := get(v.ctx, name, metav1.GetOptions{})
	v.OK(v.t, "reading the Lease", err)
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, new(int32(leaseSeconds))
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
	_, err = update(v.ctx, lease, metav1.UpdateOptions{})
	v.OK(v.t, "holding the Lease", err)
}

// namespacedFolder is what is applied to run the operator for one namespace.
const namespacedFolder = "config/namespaced"

// lay copies a kustomization of the submission, with all that it is made of, into a folder. One that leads back to
// itself is copied once.
func (v visit) lay(from, into string) {
	v.t.Helper()
	if _, err := os.Stat(filepath.Join(into, filepath.FromSlash(from), "kustomization.yaml")); err == nil {
		return
	}
	expected := namespacedFolder + " can be put together by kustomize, from files of the submission"
	copied := func(file string) []byte {
		v.t.Helper()
		if !filepath.IsLocal(file) {
			v.Fail(v.t, expected, file+" is none of them")
		}
		content, err := v.Submission.File(v.ctx, file)
		if errors.Is(err, fs.ErrNotExist) {
			v.Fail(v.t, expected, "there is no "+file)
		}
		v.OK(v.t, "reading "+file, err)
		to := filepath.Join(into, filepath.FromSlash(file))
		v.OK(v.t, "making a folder", os.MkdirAll(filepath.Dir(to), 0o750))
		v.OK(v.t, "writing "+file, os.WriteFile(to, content, 0o600))
		return content
	}
	var parts struct {
		Resources []string
		Patches   []struct{ Path string }
	}
	file := path.Join(from, "kustomization.yaml")
	if err := yaml.Unmarshal(copied(file), &parts); err != nil {
		v.Fail(v.t, expected, file+": "+err.Error())
	}
	for _, patch := range parts.Patches {
		if patch.Path != "" {
			copied(path.Join(from, patch.Path))
		}
	}
	for _, resource := range parts.Resources {
		if of := path.Join(from, resource); path.Ext(of) == ".yaml" || path.Ext(of) == ".yml" {
			copied(of)
		} else {
			v.lay(of, into)
		}
	}
}

const (
	// kustomizeTimeout is for what takes a tenth of a second.
	kustomizeTimeout = 20 * time.Second
	// renderedLimit is how much the manifests may come to, and mistakesLimit how much may be said of them, in bytes.
	renderedLimit = 16 << 20
	mistakesLimit = 64 << 10
)

// noNetwork is an environment in which kustomize downloads nothing that a submission names: it finds no git, and no
// proxy that answers.
func noNetwork(home string) []string {
	const nobody = "http://127.0.0.1:0"
	return []string{"HOME=" + home, "HTTP_PROXY=" + nobody, "HTTPS_PROXY=" + nobody}
}

// rendered puts together what is applied to run the operator for one namespace.
func (v visit) rendered() (all []*unstructured.Unstructured) {
	v.t.Helper()
	if v.Kubectl == "" {
		v.Skip(v.t, "there is no kubectl, which puts manifests together")
	}
	folder := v.t.TempDir()
	v.lay(namespacedFolder, folder)
	ctx, cancel := context.WithTimeoutCause(v.ctx, kustomizeTimeout, fmt.Errorf("kustomize took longer than %s", kustomizeTimeout))
	defer cancel()
	command := exec.CommandContext(ctx, v.Kubectl, "kubectl", "kustomize", filepath.Join(folder, filepath.FromSlash(namespacedFolder)))
	command.Env = noNetwork(folder)
	output, mistakes := limited.NewOutput(renderedLimit), limited.NewOutput(mistakesLimit)
	command.Stdout, command.Stderr = output, mistakes
	if err := command.Run(); err != nil {
		v.Fail(v.t, namespacedFolder+" can be put together by kustomize", strings.ReplaceAll(strings.TrimSpace(mistakes.String()), folder+"/", "")+": "+err.Error())
	}
	if output.Full() {
		v.Fail(v.t, namespacedFolder+" can be put together by kustomize",
			fmt.Sprintf("it comes to more than %d MB of manifests", renderedLimit>>20))
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(output.Bytes()), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			v.Fail(v.t, namespacedFolder+" comes to objects of Kubernetes", err.Error())
		}
		all = append(all, object)
	}
}

// givesARole checks what rights the manifests give: a Role with the operator's, bound to its account, and nothing for the whole cluster, but
// for asking who somebody is, which only a ClusterRole can allow.
func (v visit) givesARole() {
	v.t.Helper()
	expected := namespacedFolder + " gives the operator's account a Role, by a RoleBinding, and no right in other namespaces"
	roles := map[string]rbacv1.ClusterRole{} // by kind and name: a Role has the same fields
	bindings := map[string]rbacv1.ClusterRoleBinding{}
	for _, object := range v.rendered() {
		var err error
		name := object.GetKind() + " " + object.GetName()
		switch object.GetKind() {
		case "Role", "ClusterRole":
			var role rbacv1.ClusterRole
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role)
			roles[name] = role
		case "RoleBinding", "ClusterRoleBinding":
			var binding rbacv1.ClusterRoleBinding
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding)
			bindings[name] = binding
		}
		v.OK(v.t, "reading the "+name, err)
	}
	works := false
	for name, binding := range bindings {
		role := roles[binding.RoleRef.Kind+" "+binding.RoleRef.Name]
		of := func(groups ...string) func(rbacv1.PolicyRule) bool {
			return func(rule rbacv1.PolicyRule) bool {
				return slices.ContainsFunc(rule.APIGroups, func(group string) bool { return slices.Contains(groups, group) })
			}
		}
		if !strings.HasPrefix(name, "ClusterRoleBinding ") {
			works = works || slices.ContainsFunc(role.Rules, of(kind.Group)) && slices.ContainsFunc(role.Rules, of("apps"))
			continue
		}
		asks := of("authentication.k8s.io", "authorization.k8s.io")
		if len(role.Rules) == 0 || slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return !asks(rule) }) {
			v.Fail(v.t, expected, fmt.Sprintf("it has the %s, which gives the %s %s in all namespaces", name, binding.RoleRef.Kind, binding.RoleRef.Name))
		}
	}
	if !works {
		v.Fail(v.t, expected, fmt.Sprintf("of its %s none gives rights to Lolcows and Deployments", workload.Counted(len(bindings), "binding")))
	}
}

// otherImage is an image that the operator is told to use.
const otherImage = "operator-labs/lolcow:v2"

// namespaced lets the operator have its role in one namespace only.
func namespaced() types.Feature {
	var taken []rbacv1.ClusterRoleBinding
	return features.New("one namespace is enough").
		Assess("by the manifests for it", check.Assess(assess(visit.givesARole))).
		Assess("with a Role there, and no right elsewhere", check.Assess(assess(func(v visit) {
			account := v.account()
			bindings, err := v.herd.Client.RbacV1().ClusterRoleBindings().List(v.ctx, metav1.ListOptions{})
			v.OK(v.t, "asking for the operator's bindings", err)
			v.StopQuietly(v.ctx, v.t)
			for _, binding := range bindings.Items {
				if len(binding.Subjects) != 1 || binding.Subjects[0].Name != account.Name || binding.Subjects[0].Namespace != account.Namespace {
					continue
				}
				local := made(paddock)
				local.Name += "-" + binding.Name
				_, err := v.herd.Client.RbacV1().RoleBindings(paddock).Create(v.ctx, &rbacv1.RoleBinding{ObjectMeta: local, Subjects: binding.Subjects, RoleRef: binding.RoleRef}, metav1.CreateOptions{})
				v.OK(v.t, "giving the operator its role in one namespace", ignoreThere(err))
				taken = append(taken, binding)
				v.OK(v.t, "taking the operator's role away elsewhere", v.herd.Client.RbacV1().ClusterRoleBindings().Delete(v.ctx, binding.Name, deleteNow))
			}
			token := v.scraper()
			began := v.Audit.Now()
			scraped := v.serveMetrics("--namespace="+paddock, "--image="+otherImage)
			inside, outside := v.make(v.herd.draw(paddock)), v.make(v.herd.draw(stable))
			expected := fmt.Sprintf("with --namespace=%s the operator asks about that namespace only, where it has its rights", paddock)
			everywhere := func() []audit.Event {
				return v.Audit.Since(began, v.ByOperator().And(func(e audit.Event) bool {
					return e.Resource != "" && (e.Verb == "list" || e.Verb == "watch") && e.Namespace != paddock && e.Resource != "leases"
				}))
			}
			v.Eventually(v.ctx, v.t, fmt.Sprintf("%s; %s has its children", expected, inside.Name), v.herd.Changed, func() (string, bool) {
				if beyond := everywhere(); len(beyond) > 0 {
					v.Fail(v.t, expected, "it asked about all namespaces: "+beyond[0].String(), audit.Lines(beyond)...)
				}
				wrong := v.herd.wrong(inside)
				return wrong, wrong == ""
			})
			v.Settle(v.ctx, v.t)
			deployment, _ := v.herd.deployment(inside)
			if !slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Image == otherImage }) {
				v.Fail(v.t, "with --image="+otherImage+" the container has that image", "no container of the Deployment "+inside.Name+" has it")
			}
			if left, none := v.herd.left(outside); !none {
				v.Fail(v.t, "a Lolcow of another namespace is not touched", left)
			}
			v.scrapes(fmt.Sprintf("with --namespace=%s the operator serves its metrics", paddock),
				func() (int, string, error) { return scraped(token) }, func(string) string { return "" })
			if beyond := everywhere(); len(beyond) > 0 {
				v.Fail(v.t, expected, "when the metrics were read, it asked about all namespaces: "+beyond[0].String(), audit.Lines(beyond)...)
			}
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			h := herdOf(ctx)
			// While the API server hears of one binding before the other, an operator that runs would be refused what
			// it may do.
			problems := []error{c.Operator.Stop(ctx)}
			for _, binding := range taken {
				binding.ObjectMeta = metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels, Annotations: binding.Annotations}
				_, err := h.Client.RbacV1().ClusterRoleBindings().Create(ctx, &binding, metav1.CreateOptions{})
				problems = append(problems, ignoreThere(err), workload.IgnoreGone(h.Client.RbacV1().RoleBindings(paddock).Delete(ctx, madeName+"-"+binding.Name, deleteNow)))
			}
			return errors.Join(append(problems, withdraw(ctx, h), c.Operator.Start(ctx))...)
		})).Feature()
}
