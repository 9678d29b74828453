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

// rehearsed is a deed that changes nothing where it is allowed, if dry runs are served.
func (d deed) rehearsed() deed {
	if d.method != http.MethodGet {
		d.path += rehearse
	}
	return d
}

// eachVerbAlone fails the check unless a right to one verb is a right to no other one.
func (v visit) eachVerbAlone() {
	v.t.Helper()
	p, ok := v.proxy()
	if !ok {
		return
	}
	v.make(here, newLlama("guarded-too", 100, 1.5))
	var verbs []string
	var all []deed
	for _, d := range deeds() {
		d.path = strings.Replace(d.path, llama(here, "guarded"), llama(here, "guarded-too"), 1)
		all = append(all, d.rehearsed())
		if !slices.Contains(verbs, d.verb) {
			verbs = append(verbs, d.verb)
		}
	}
	user := func(verb string) string { return "llamas-" + verb }
	for _, verb := range verbs {
		v.bind("llama-checks-"+user(verb), here, []rbacv1.Subject{subject("User", user(verb))}, rule(group, "llamas", verb))
	}
	for _, verb := range verbs {
		v.allowed(user(verb), group, "llamas", verb)
	}
	type trial struct {
		verb string // that the user may do
		deed deed
	}
	var trials []trial
	for _, verb := range verbs {
		for _, d := range all {
			trials = append(trials, trial{verb, d})
		}
	}
	answers := atOnce(len(trials), func(i int) answer {
		d := trials[i].deed
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
		verb, d := trials[i].verb, trials[i].deed
		everywhere := strings.HasPrefix(d.path, llamas(""))
		switch {
		case a.err != nil || a.code == http.StatusTooManyRequests: // so many at a time may be too many
		case (verb != d.verb || everywhere) && a.code != http.StatusForbidden:
			where := ""
			if everywhere {
				where = " of all namespaces"
			}
			v.fail(a, fmt.Sprintf("a user who may only %s the llamas of a namespace gets 403 for the verb %s%s", verb, d.verb, where), "the answer is "+a.told())
		case verb == d.verb && !everywhere && a.code == http.StatusForbidden:
			v.fail(a, fmt.Sprintf("a user who may %s the llamas of a namespace is not refused with 403", verb), "the answer is "+a.told())
		}
	}
}

// leaver is a user who has used a right that was then withdrawn.
type leaver struct {
	used   time.Time // the server had asked about the right before that; zero: it was not used
	asked  time.Time // when it was tried for the last time
	answer answer    // to that
	late   bool      // the checks that take most of the time have been run
}

// Who the leaver is, and for how long an answer about a right may be used again: see the task. The rest is for clocks.
const (
	leaverUser = "llama-leaver"
	cachedFor  = 10 * time.Second
	cacheMore  = 500 * time.Millisecond
)

// beginAsLeaver gives a user a right, lets the user use it, and withdraws it. Whether users with rights are served is for other checks.
func (v visit) beginAsLeaver() {
	v.t.Helper()
	p, ok := v.proxy()
	if !ok {
		return
	}
	const name = "llama-checks-leaver"
	v.bind(name, here, []rbacv1.Subject{subject("User", leaverUser)}, rule(group, "llamas", "list"))
	v.allowed(leaverUser, group, "llamas", "list")
	a := p.send(v.ctx, http.MethodGet, llamas(here), nil, as(leaverUser)...)
	used := time.Now()
	v.OK(v.t, "withdrawing a right", v.typed.RbacV1().RoleBindings(here).Delete(v.ctx, name, metav1.DeleteOptions{}))
	v.eventually("the right is withdrawn", grantPatience, func() (string, bool) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: leaverUser, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: here, Group: group, Resource: "llamas", Verb: "list"},
		}}
		answer, err := v.typed.AuthorizationV1().SubjectAccessReviews().Create(v.ctx, review, metav1.CreateOptions{})
		return fmt.Sprintf("%v", err), err == nil && !answer.Status.Allowed
	})
	if a.code == http.StatusOK {
		v.kept.leaver.used = used
	}
}

// askAsLeaver asks again. A server may still allow it; what it remembers must not last longer by that.
func (v visit) askAsLeaver() {
	v.t.Helper()
	if p, ok := v.proxy(); ok && !v.kept.leaver.used.IsZero() {
		v.kept.leaver.asked = time.Now()
		v.kept.leaver.answer = p.send(v.ctx, http.MethodGet, llamas(here), nil, as(leaverUser)...)
	}
}

// lastAsLeaver asks for the last time before the server is killed, which forgets then what it remembers, and not before it must have
// forgotten it by itself. Where the checks before have not been run, that would be a long wait, and is left out.
func (v visit) lastAsLeaver() {
	v.t.Helper()
	if used := v.kept.leaver.used; !used.IsZero() && v.kept.leaver.late {
		v.Pause(v.ctx, v.t, time.Until(used.Add(cachedFor+cacheMore)))
		v.askAsLeaver()
	}
}

// leaverRefused fails the check if a right still worked after the time for which an answer may be used again.
func (v visit) leaverRefused() {
	v.t.Helper()
	l := v.kept.leaver
	if after := l.asked.Sub(l.used); !l.used.IsZero() && after > cachedFor && l.answer.code == http.StatusOK {
		v.fail(l.answer, fmt.Sprintf("a right that was withdrawn works for at most %s, also if it is used meanwhile", cachedFor),
			fmt.Sprintf("%s after the server has asked about it, the answer is %s", after.Round(time.Second/10), l.answer.told()))
	}
}
