// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rehearsed returns an action as a dry run, which changes nothing even if it is allowed.
func (d action) rehearsed() action {
	if d.method != http.MethodGet {
		d.path += rehearse
	}
	return d
}

// eachVerbAlone fails the check unless a user with a right to one verb may use this verb and no other.
func (v visit) eachVerbAlone() {
	v.t.Helper()
	p, ok := v.proxy()
	if !ok {
		return
	}
	v.create(ns, newLlama("guarded-too", 100, 1.5))
	var verbs []string
	var all []action
	for _, d := range actions() {
		d.path = strings.Replace(d.path, llama(ns, "guarded"), llama(ns, "guarded-too"), 1)
		all = append(all, d.rehearsed())
		if !slices.Contains(verbs, d.verb) {
			verbs = append(verbs, d.verb)
		}
	}
	user := func(verb string) string { return "llamas-" + verb }
	for _, verb := range verbs {
		v.bind("llama-checks-"+user(verb), ns, []rbacv1.Subject{subject("User", user(verb))}, rule(group, "llamas", verb))
	}
	for _, verb := range verbs {
		v.allowed(user(verb), group, "llamas", verb)
	}
	type trial struct {
		verb   string // the verb that the user has a right to
		action action
	}
	var trials []trial
	for _, verb := range verbs {
		for _, d := range all {
			trials = append(trials, trial{verb, d})
		}
	}
	answers := atOnce(len(trials), func(i int) answer {
		d := trials[i].action
		headers := d.headers(as(user(trials[i].verb))...)
		if d.verb != "watch" {
			return p.send(v.ctx, d.method, d.path, d.body, headers...)
		}
		path, query, _ := strings.Cut(d.path, "?watch=")
		w := followBy(v.ctx, p.client, p.host, path, query[strings.IndexByte(query, '&'):], headers...)
		w.cancel()
		if w.refused != nil {
			return *w.refused
		}
		return answer{method: d.method, path: d.path, code: http.StatusOK}
	})
	for i, a := range answers {
		verb, d := trials[i].verb, trials[i].action
		everywhere := strings.HasPrefix(d.path, llamas(""))
		switch {
		case a.err != nil || a.code == http.StatusTooManyRequests || a.code >= http.StatusInternalServerError:
			// So many concurrent requests may be too many for the server, or for the API server that it asks.
		case (verb != d.verb || everywhere) && a.code != http.StatusForbidden:
			where := ""
			if everywhere {
				where = " of all namespaces"
			}
			v.fail(a,
				fmt.Sprintf("a user who may only %s the llamas of a namespace gets 403 for the verb %s%s", verb, d.verb, where),
				"the answer is "+a.summary())
		case verb == d.verb && !everywhere && a.code == http.StatusForbidden:
			v.fail(a, fmt.Sprintf("a user who may %s the llamas of a namespace is not refused with 403", verb),
				"the answer is "+a.summary())
		}
	}
}

// withdrawnRight is a right that a user had, used, and lost.
type withdrawnRight struct {
	used   time.Time // the server had asked about the right before this time; zero: it was not used
	asked  time.Time // when the user tried it for the last time
	answer answer    // the answer to the last try
	late   bool      // the checks that take most of the time have run
}

// formerUser is the user with the withdrawn right. A server may reuse an answer about a right for cachedFor: see the
// task. cacheMore allows for differences between clocks.
const (
	formerUser = "llama-leaver"
	cachedFor  = 10 * time.Second
	cacheMore  = 500 * time.Millisecond
)

// grantAndWithdraw gives a user a right, lets the user use it, and withdraws it. Other checks report servers that
// refuse users with rights.
func (v visit) grantAndWithdraw() {
	v.t.Helper()
	p, ok := v.proxy()
	if !ok {
		return
	}
	const name = "llama-checks-leaver"
	v.bind(name, ns, []rbacv1.Subject{subject("User", formerUser)}, rule(group, "llamas", "list"))
	v.allowed(formerUser, group, "llamas", "list")
	a := p.send(v.ctx, http.MethodGet, llamas(ns), nil, as(formerUser)...)
	used := time.Now()
	v.OK(v.t, "withdrawing a right", v.typed.RbacV1().RoleBindings(ns).Delete(v.ctx, name, metav1.DeleteOptions{}))
	v.eventually("the right is withdrawn", grantPatience, func() (string, bool) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: formerUser,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: ns, Group: group, Resource: "llamas", Verb: "list",
			},
		}}
		answer, err := v.typed.AuthorizationV1().SubjectAccessReviews().Create(v.ctx, review, metav1.CreateOptions{})
		return fmt.Sprintf("%v", err), err == nil && !answer.Status.Allowed
	})
	if a.code == http.StatusOK {
		v.kept.withdrawn.used = used
	}
}

// tryWithdrawnRight uses the withdrawn right again. A server may still allow that, but must not remember its answer for
// longer because of this request.
func (v visit) tryWithdrawnRight() {
	v.t.Helper()
	if p, ok := v.proxy(); ok && !v.kept.withdrawn.used.IsZero() {
		v.kept.withdrawn.asked = time.Now()
		v.kept.withdrawn.answer = p.send(v.ctx, http.MethodGet, llamas(ns), nil, as(formerUser)...)
	}
}

// tryWithdrawnRightLate uses the withdrawn right for the last time before the server is killed, because a kill makes it
// forget all answers. By then the server must have forgotten this answer by itself. If the earlier checks have not run,
// that would be a long wait, so it is skipped.
func (v visit) tryWithdrawnRightLate() {
	v.t.Helper()
	if used := v.kept.withdrawn.used; !used.IsZero() && v.kept.withdrawn.late {
		v.Pause(v.ctx, v.t, time.Until(used.Add(cachedFor+cacheMore)))
		v.tryWithdrawnRight()
	}
}

// withdrawnRightIsRefused fails the check if a withdrawn right still worked after the time for which an answer may be
// reused.
func (v visit) withdrawnRightIsRefused() {
	v.t.Helper()
	r := v.kept.withdrawn
	if after := r.asked.Sub(r.used); !r.used.IsZero() && after > cachedFor && r.answer.code == http.StatusOK {
		v.fail(r.answer, fmt.Sprintf("a right that was withdrawn works for at most %s, "+
			"even if it is used in that time", cachedFor),
			fmt.Sprintf("%s after the server has asked about it, the answer is %s",
				after.Round(time.Second/10), r.answer.summary()))
	}
}
