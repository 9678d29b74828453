// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/audit"
)

// accepted waits until the condition Accepted of an object has a status, for its current generation.
func (v *visit) accepted(name string, want metav1.ConditionStatus, patience time.Duration) {
	v.t.Helper()
	reason := map[metav1.ConditionStatus]string{
		metav1.ConditionTrue:  "ValidKey",
		metav1.ConditionFalse: "InvalidKey",
	}[want]
	v.EventuallyWithin(v.ctx, v.t,
		fmt.Sprintf("the condition Accepted of %s is %s, with the reason %s, for the present generation", name, want, reason),
		patience, v.node.Changed, func() (string, bool) {
			o := v.node.get(name)
			if o == nil {
				return "it is not there", false
			}
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			for _, c := range conditions {
				c, _ := c.(map[string]any)
				if c["type"] != "Accepted" {
					continue
				}
				return fmt.Sprintf("it is %v, with the reason %v, of generation %v; present is generation %d",
						c["status"], c["reason"], c["observedGeneration"], o.GetGeneration()),
					c["status"] == string(want) && c["reason"] == reason && c["observedGeneration"] == o.GetGeneration()
			}
			return "it has no such condition", false
		})
}

// warned waits until there is a Warning about each of these AuthorizedKeys, besides the known ones.
func (v *visit) warned(known map[string]string, names ...string) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, "there is an Event of type Warning about each AuthorizedKey that is not accepted",
		filePatience, v.node.Changed, func() (string, bool) {
			for _, name := range names {
				warnings := v.node.warnings(name)
				maps.DeleteFunc(warnings, func(event, version string) bool { return known[event] == version })
				if len(warnings) == 0 {
					return "there is none about " + name, false
				}
			}
			return "", true
		})
}

func status() types.Feature {
	return features.New("the status says whether the key is accepted").
		Assess("for the present generation", check.Assess(assess(func(v *visit) {
			ada := v.add("ada")
			v.accepted(ada, metav1.ConditionTrue, filePatience)
			v.set(ada, v.drawKey())
			v.accepted(ada, metav1.ConditionTrue, filePatience)
			// Nothing is known yet about a new object with the name of an earlier one. It begins with the same generation.
			v.remove(ada)
			v.create(ada, "hello")
			v.accepted(ada, metav1.ConditionFalse, filePatience)
			v.remove(ada)
			v.keys[ada] = v.drawKey()
			v.create(ada, v.keys[ada])
			v.accepted(ada, metav1.ConditionTrue, filePatience)
			v.holds("an AuthorizedKey has the name of one that was deleted")
		}))).
		Assess("also by a program without a file", check.Assess(assess(func(v *visit) {
			const flag = "--authorized-keys="
			v.removeAll()
			grace, edsger := v.add("grace"), v.add("edsger")
			v.accepted(grace, metav1.ConditionTrue, filePatience)
			v.accepted(edsger, metav1.ConditionTrue, filePatience)
			v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
			v.foreign = lineOf("ghost", v.drawKey()) // which this program must not know
			v.write(v.foreign)
			v.set(grace, v.drawKey())
			v.set(edsger, "hello")
			ada, mallory := v.add("ada"), v.drawName("mallory")
			v.OK(v.t, "starting the operator with "+flag+" as in config/manager", v.node.startWith(v.ctx, "", shortResync))
			v.create(mallory, "hello")
			for name, want := range map[string]metav1.ConditionStatus{
				grace: metav1.ConditionTrue, edsger: metav1.ConditionFalse, // both changed while no program ran
				ada: metav1.ConditionTrue, mallory: metav1.ConditionFalse,
			} {
				v.accepted(name, want, filePatience)
			}
			v.Idle(v.ctx, v.t)
			if content := v.content(); content != v.foreign {
				v.Fail(v.t, "a controller that was started with "+flag+", as in the Deployment, keeps no file",
					fmt.Sprintf("it has written %q", shorten(content)))
			}
		}))).
		Assess("and is written once in a cluster", check.Assess(assess(func(v *visit) {
			const flag = "--write-status=false"
			v.removeAll()
			v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
			err := v.node.start(v.ctx, never, flag)
			if errors.Is(err, check.ErrNoSuchFlag) {
				v.Fail(v.t, "the program has the flag --write-status", err.Error())
			}
			v.OK(v.t, "starting the operator", err)
			began := v.Audit.Now()
			v.create(v.drawName("mallory"), "hello")
			v.add("ada")
			v.holds("an AuthorizedKey was created, and the controller was started with " + flag)
			v.Settle(v.ctx, v.t)
			if writes := v.Audit.Since(began, v.ByOperator().And(audit.Writes)); len(writes) > 0 {
				v.Fail(v.t, "the controller was started with "+flag+", as on each node, and writes no status and no Event",
					fmt.Sprintf("it sent %d writes", len(writes)), audit.Lines(writes)...)
			}
		}))).
		Teardown(check.Teardown(stopped)).Feature()
}

// stopped stops an operator that was started with unusual settings.
func stopped(ctx context.Context, c *check.Check) error { return c.Operator.Stop(ctx) }

// forms are functions that write a key in valid forms: with different comments, or without one.
var forms = []func(key string) string{
	func(key string) string { return key + " ada@laptop" },
	func(key string) string { return strings.ReplaceAll(key, " ", "\t") + "\tada" },
	func(key string) string { return key },
	func(key string) string { return key + "  the laptop of \"Zoë\", # 2\n" },
	func(key string) string { return key + ` command="id",no-pty` },
	func(key string) string { return "  " + key + " \n" },
	func(key string) string { return key + " " + ssh.KeyAlgoED25519 + " AAAA" },
}

func invalidKey() types.Feature {
	return features.New("an invalid key is refused").
		Assess("and its owner is told", check.Assess(assess(func(v *visit) {
			key, other := v.drawKey(), v.drawKey()
			var names []string
			create := func(texts map[string]string) {
				v.t.Helper()
				for what, text := range texts {
					name := v.drawName(what)
					v.create(name, text)
					names = append(names, name)
				}
			}
			refused := func() {
				v.t.Helper()
				for _, name := range names {
					v.accepted(name, metav1.ConditionFalse, filePatience)
				}
				v.warned(nil, names...)
			}
			// Half of them are created before a restart, and half after it: client-go sends ten requests at once, and then five
			// a second.
			create(map[string]string{
				"two-lines":   key + "\n" + other,
				"second-line": "# a comment\n" + key,
				"return":      key + "\r" + other,
				"command":     `command="/bin/sh -i" ` + key,
				"forwarding":  "no-pty " + key,
				"word":        "hello",
				"comment":     key + "\n# mine",
				"like-a-type": `command="ssh-ed25519 AAAA" ` + key,
				"indented":    "  restrict " + key,
				// The note of an Event has at most 1 KiB.
				"long-option": `command="` + strings.Repeat("x", 2<<10) + `" ` + key,
			})
			refused()
			v.foreign = others + "\n"
			v.restart(never, func() { v.write(v.foreign) })
			create(map[string]string{
				"path":         "../../../etc/passwd",
				"half":         key[:len(key)/2],
				"no-type":      strings.Fields(key)[1],
				"private":      "-----BEGIN OPENSSH PRIVATE KEY-----",
				"empty":        "",
				"only-comment": "# " + key,
				"other-type":   ssh.KeyAlgoRSA + " " + strings.Fields(key)[1],
				"as-a-type":    "restrict " + strings.Fields(key)[1],
			})
			// These are valid: one as in an id_ed25519.pub, and one whose comment looks like a mark.
			v.add("ada")
			imitator := v.drawName("imitator")
			v.keys[imitator] = v.drawKey()
			v.create(imitator, v.keys[imitator]+" "+mark+"somebody")
			refused()
			for name := range v.keys {
				v.accepted(name, metav1.ConditionTrue, filePatience)
				if len(v.node.warnings(name)) > 0 {
					v.Fail(v.t, "an Event of type Warning is about an AuthorizedKey that is not accepted",
						"there is one about "+name+", which is valid")
				}
			}
			v.holds("of all AuthorizedKeys two are valid")
		}))).
		Assess("also one that was valid", check.Assess(assess(func(v *visit) {
			v.foreign = others + "\n"
			v.removeAll()
			ada := v.addWritten("ada")
			key := v.keys[ada]
			delete(v.keys, ada)
			v.set(ada, "restrict "+key)
			v.accepted(ada, metav1.ConditionFalse, filePatience)
			v.warned(nil, ada)
			v.holds(ada + " was valid, and is not any longer")
			v.keys[ada] = key
			v.set(ada, key)
			v.accepted(ada, metav1.ConditionTrue, filePatience)
			v.holds(ada + " is valid again")
			events := v.node.warnings(ada)
			v.remove(ada)
			v.create(ada, "hello")
			v.accepted(ada, metav1.ConditionFalse, filePatience)
			v.warned(events, ada)
			v.holds(ada + " was deleted, and one of this name was created, which is not valid")
		}))).
		Assess("and each type of key is accepted", check.Assess(assess(func(v *visit) {
			v.foreign = others + "\n"
			v.removeAll()
			var first string
			for i, algorithm := range slices.Concat(tokenTypes, ordinaryTypes) {
				name := v.drawName("ada.lovelace")
				v.keys[name] = v.drawKeyOf(algorithm)
				v.create(name, forms[i%len(forms)](v.keys[name]))
				first = cmp.Or(first, name)
			}
			v.holds("there is an AuthorizedKey with a key of each type that golang.org/x/crypto/ssh can parse")
			v.accepted(first, metav1.ConditionTrue, filePatience) // the others have statuses in a second or two
		}))).Feature()
}
