// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/services/cloud"
)

func launched() e2etypes.Feature {
	return feature("a CloudInstance gets an instance", "of its type and image", func(v visit) {
		spec := v.wanted("almond")
		spec["type"] = "medium"
		o := v.create("almond", spec)
		const expected = "for almond one instance is launched: medium, with its image and the tag " + ownerTag + " = its UID"
		one := v.hasOne(expected, patience, o, 1)
		if one.Type != "medium" || one.Tags[ownerTag] != o.uid {
			v.fail(expected, fmt.Sprintf("the instance %s is %s, and its tags are %v (the UID is %s)",
				one.ID, one.Type, one.Tags, o.uid))
		}
		// Other instances are different, and the first one stays.
		const too = "for birch an instance is launched, too, " +
			"and for an object with the longest name and image that there can be"
		birch, longest := v.createWanted("birch"), v.createLongestName()
		v.hasOne(too, patience, birch, 1)
		if large := v.hasOne(too, patience, longest, 1); large.Type != "large" {
			v.fail("for an object with the longest name a large instance is launched, as its spec says", "it is "+large.Type)
		}
		v.Settle(v.ctx, v.t)
		v.atMost("for almond one instance is launched, and no other one when birch is created", o, 1)
	})
}

// longestName and longestImage are the maximum lengths of an object's name and of an image, in bytes. A label's value
// may have 63, and a token 64.
const (
	longestName  = 253
	longestImage = 200
)

// createLongestName creates a CloudInstance with the longest name and image that there can be.
func (v visit) createLongestName() order {
	v.t.Helper()
	const part = "birch-with-a-name-that-does-not-fit-into-the-value-of-a-label."
	image := fmt.Sprintf("registry.example.com:5000/team_a/%d", time.Now().UnixNano())
	return v.create(strings.Repeat(part, longestName)[:longestName-1]+"x", map[string]any{
		"type": "large", "image": image + strings.Repeat("x", longestImage-len(image)),
	})
}

// launches returns the launch calls among the operator's requests.
func launches(log []faults.Entry) []faults.Entry {
	return slices.DeleteFunc(slices.Clone(log), func(e faults.Entry) bool {
		return e.Service != cloud.Service || e.Verb != "post"
	})
}

// writtenBeforeLaunch fails an operator that launched before it knew that a write was done: the first one that matches.
func (v visit) writtenBeforeLaunch(expected, what string, o order, match func(faults.Entry) bool) {
	v.t.Helper()
	log := v.log()
	sent := launches(log)
	if len(sent) == 0 {
		v.fail(expected, "no launch was sent")
	}
	i := slices.IndexFunc(log, func(e faults.Entry) bool {
		return e.Service == faults.API && e.Write && e.Name == o.name && match(e) && e.Code < 300 && !e.Answered().IsZero()
	})
	switch {
	case i < 0:
		v.fail(expected, fmt.Sprintf("a launch was sent at %s, and %s was never written",
			sent[0].Time.Format("15:04:05.000"), what))
	case sent[0].Time.Before(log[i].Answered()):
		v.fail(expected, fmt.Sprintf("a launch was sent at %s, and that %s is written was known only at %s",
			sent[0].Time.Format("15:04:05.000"), what, log[i].Answered().Format("15:04:05.000")))
	}
}

func finalizerFirst() e2etypes.Feature {
	return feature("first the finalizer", "then the cloud", func(v visit) {
		first := v.createWanted("catalpa")
		v.hasOne("catalpa gets its instance", patience, first, 1)
		v.finalizerBeforeLaunch(first)
		v.Settle(v.ctx, v.t)
		v.arm(faults.Fault{Kind: faults.Conflict, Class: faults.Write, Service: faults.API, At: 1})
		v.began = time.Now()
		second := v.createWanted("chestnut")
		v.hasOne("chestnut gets its instance, although the operator's first write meets a conflict", longPatience, second, 1)
		v.finalizerBeforeLaunch(second)
	})
}

// finalizerBeforeLaunch fails an operator that launched an instance for an object before it knew that its finalizer was
// on the object.
func (v visit) finalizerBeforeLaunch(o order) {
	v.t.Helper()
	expected := fmt.Sprintf("the finalizer %s is on %s before anything is launched for it", finalizer, o.name)
	v.until(expected, patience, func() (string, bool) {
		now, exists := v.find(o)
		if !exists {
			return "it is gone", false
		}
		return fmt.Sprintf("its finalizers are %q", now.GetFinalizers()), slices.Contains(now.GetFinalizers(), finalizer)
	})
	v.writtenBeforeLaunch(expected, "the finalizer", o, func(e faults.Entry) bool {
		return e.Resource == resource.Resource && (e.Verb == "patch" || e.Verb == "update")
	})
}

func nonceFirst() e2etypes.Feature {
	return feature("first the nonce", "then the launch", func(v visit) {
		const expected = "the Workspace cedar, which CloudInstance cedar controls, " +
			"has the nonce before anything is launched, and each attempt to launch has it as its token"
		v.arm(faults.Fault{Kind: faults.Unavailable, Class: faults.Write, Service: cloud.Service})
		o := v.createWanted("cedar")
		var nonce string
		v.until(expected, patience, func() (string, bool) {
			var exists bool
			nonce, _, exists = v.workspace(o)
			attempts := len(launches(v.log()))
			if attempts > 0 && !exists {
				return fmt.Sprintf("it has tried to launch %d times, "+
					"and there is no Workspace cedar that the CloudInstance cedar controls", attempts), false
			}
			return fmt.Sprintf("it has tried to launch %d times, and the nonce is %q", attempts, nonce),
				attempts >= 3 && nonce != ""
		})
		v.writtenBeforeLaunch(expected, "the Workspace", o, func(e faults.Entry) bool {
			return e.Resource == workspaces.Resource
		})
		for _, attempt := range launches(v.log()) {
			if token, is := hasToken(attempt, nonce); !is {
				v.fail(expected, fmt.Sprintf("the nonce is %s, and an attempt had the token %s", nonce, token))
			}
		}
		v.kill()
		v.start()
		v.until(expected, longPatience, func() (string, bool) {
			attempts := launches(v.log())
			token, is := hasToken(attempts[len(attempts)-1], nonce)
			if now, _, _ := v.workspace(o); now != nonce || !is {
				v.fail(expected, fmt.Sprintf("the nonce was %s, and after a restart it is %s, and the token of the last attempt %s",
					nonce, now, token))
			}
			restarted := slices.IndexFunc(v.log(), func(e faults.Entry) bool {
				return e.Service == faults.Operator && e.Verb == "started"
			})
			return "it has not tried again since it was started again", restarted >= 0 && len(launches(v.log()[restarted:])) > 0
		})
		v.disarm()
		v.hasOne("when the cloud launches again, cedar gets its instance", longPatience, o, 1)
		v.nonceOfAnother()
	})
}

// hasToken returns the token of a launch, of which the log has only the beginning, and whether it is this nonce.
func hasToken(launch faults.Entry, nonce string) (token string, is bool) {
	_, token, _ = strings.Cut(launch.About, "token ")
	return token, strings.HasPrefix(nonce, strings.TrimSuffix(token, "…"))
}

func recorded() e2etypes.Feature {
	return feature("the result is recorded", "and the nonce removed", func(v visit) {
		o := v.createWanted("elder")
		one := v.hasOne("elder gets one instance", patience, o, 1)
		v.records(fmt.Sprintf("the Workspace elder has the instanceID %s and no nonce any more", one.ID), patience, o, one)
	})
}

// records waits until the Workspace of an object has the ID of an instance, and no nonce.
func (v visit) records(expected string, patience time.Duration, o order, one cloud.Instance) {
	v.t.Helper()
	v.until(expected, patience, func() (string, bool) {
		nonce, id, exists := v.workspace(o)
		if !exists {
			return fmt.Sprintf("there is no Workspace %s that the CloudInstance %s controls", o.name, o.name), false
		}
		return fmt.Sprintf("the instanceID of the Workspace %s is %q, and its nonce %q", o.name, id, nonce),
			id == one.ID && nonce == ""
	})
}

func statusReported() e2etypes.Feature {
	return feature("the status", "tells what was observed", func(v visit) {
		o := v.createWanted("fir")
		one := v.hasOne("fir gets one instance", patience, o, 1)
		v.statusShows("the instance of fir runs", patience, o, one)
		v.ready("the instance of fir runs", patience, o, metav1.ConditionTrue)
		v.arm(allRequests(faults.Unavailable)...)
		other := v.createWanted("hazel")
		v.ready("while the cloud answers 503", patience, other, metav1.ConditionFalse)
		const down = "while the cloud answers 503, the reason of Ready is " + cloudDown
		v.until(down, patience, func() (string, bool) {
			reasons := v.reasonsOf(other)
			return fmt.Sprintf("Ready of hazel has had the reasons %q", reasons), slices.Contains(reasons, cloudDown)
		})
		v.disarm()
		v.ready("when the cloud answers again", longPatience, other, metav1.ConditionTrue)
		v.bootsAtOnce()
		// The operator determines which of its writes meets the fault for the Workspace.
		for _, fault := range apiFaults() {
			v.arm(fault)
			refused := v.createWanted(fmt.Sprintf("hickory-%s-%s-%d", fault.Kind, fault.Class, fault.At))
			// If it never gets its instance, every-boundary reports that.
			for began := time.Now(); time.Since(began) < patience; v.Pause(v.ctx, v.t, pollInterval) {
				if now, exists := v.find(refused); exists {
					if c := conditionOf(now); c != nil && c.Status == metav1.ConditionTrue {
						break
					}
				}
			}
			if reasons := v.reasonsOf(refused); slices.Contains(reasons, cloudDown) {
				expected := fmt.Sprintf("while the cloud is well and the API server fails (%s), the reason of Ready is never %s",
					fault, cloudDown)
				v.fail(expected, fmt.Sprintf("Ready of %s has had the reasons %q", refused.name, reasons))
			}
		}
		dying := v.runs("hawthorn")
		v.notesFail(o)
		v.objectsFail(dying)
	})
}

// apiFaults returns faults of the API server at one of the operator's first requests for an object.
func apiFaults() (all []faults.Fault) {
	for _, kind := range []faults.Kind{faults.Conflict, faults.LostAnswer} {
		for at := 1; at <= firstWrites; at++ {
			all = append(all, faults.Fault{Kind: kind, Class: faults.Write, Service: faults.API, At: at})
		}
	}
	return append(all,
		faults.Fault{Kind: faults.Unavailable, Class: faults.Write, Service: faults.API, At: 1},
		faults.Fault{Kind: faults.Unavailable, Class: faults.Read, Service: faults.API, At: 1})
}

// cloudDown is the reason of Ready while the cloud fails. firstWrites is roughly how many writes to the API server an
// operator has made when the launch is recorded.
const (
	cloudDown   = "CloudUnavailable"
	firstWrites = 4
)

func ended() e2etypes.Feature {
	return feature("a CloudInstance is deleted", "and its instance ends before it disappears", func(v visit) {
		v.bootsAtOnce()
		o := v.runs("ginkgo")
		v.arm(faults.Fault{Kind: faults.Unavailable, Class: faults.Write, Service: cloud.Service, At: 1})
		v.delete(o)
		const expected = "when ginkgo is deleted, its instance is terminated, " +
			"also if the cloud answers 503 at first; then ginkgo disappears"
		v.disappears(expected, longPatience, o)
		v.atMost(expected, o, 1)
	})
}

func namesake() e2etypes.Feature {
	return feature("a name is used again", "and another instance is launched", func(v visit) {
		v.bootsAtOnce()
		first := v.runs("holly")
		v.delete(first)
		v.disappears("when holly is deleted, its instance ends, and it disappears", patience, first)
		second := v.createWanted("holly")
		// An operator that leaves the Workspace to the garbage collector has to wait for it.
		v.until("another CloudInstance holly gets an instance of its own", longPatience, func() (string, bool) {
			v.atMost("of two CloudInstances holly, one after the other, each has one instance", second, 1)
			return v.launchedInstances(second), len(v.running(second)) == 1
		})
		v.atMost("of two CloudInstances holly, one after the other, each has one instance", first, 1)
		v.inOtherNamespace(second)
		v.forceDeleted()
	})
}

func settles() e2etypes.Feature {
	return feature("nothing changes", "and nothing is written", func(v visit) {
		v.bootsAtOnce()
		o := v.runs("ironwood")
		v.Settle(v.ctx, v.t)
		mark, began := v.Audit.Now(), v
		began.began = time.Now()
		v.change(o, `{"metadata":{"labels":{"team":"blue"}}}`)
		looks := func() []faults.Entry {
			return slices.DeleteFunc(began.log(), func(e faults.Entry) bool { return e.Service != cloud.Service || e.Write })
		}
		v.until("while its instance runs, the operator looks at it again every 2 s or more often", longPatience,
			func() (string, bool) {
				all := looks()
				observed := fmt.Sprintf("it has looked %d times", len(all))
				// A look has ended, with all its writes, when the next one begins. A time in a status can change only in another
				// second.
				return observed, len(all) > 2 && all[len(all)-2].Time.Sub(all[0].Time) >= time.Second
			})
		const expected = "while nothing changes but a label, the operator looks at the cloud and writes nothing"
		if written := v.Audit.Since(mark, v.OperatorRequests().And(audit.Writes)); len(written) > 0 {
			v.fail(expected, fmt.Sprintf("it has written %d times: %s", len(written), written[0]))
		}
		for _, e := range began.log() {
			if e.Service == cloud.Service && e.Write {
				v.fail(expected, "it has written to the cloud: "+e.Summary())
			}
		}
		if n, since := len(looks()), time.Since(began.began); float64(n) > 6+6*since.Seconds() {
			v.fail("while nothing changes, the operator asks the cloud a few times a second at most",
				fmt.Sprintf("it has asked %d times in %.1f s", n, since.Seconds()))
		}
	})
}

func pastCache() e2etypes.Feature {
	return feature("Workspaces are read past the cache", "and never listed or watched", func(v visit) {
		const expected = "Workspaces are read one by one, from the API server itself, and never listed or watched"
		mine := v.ByOperator().And(audit.On(workspaces.Group, workspaces.Resource))
		all := v.Audit.Since(0, mine)
		reads := 0
		for _, e := range all {
			switch e.Verb {
			case "list", "watch":
				v.fail(expected, fmt.Sprintf("the operator sent %s", e))
			case "get":
				reads++
			}
		}
		if reads == 0 {
			v.fail(expected,
				fmt.Sprintf("the operator has sent %d requests about Workspaces in the whole run, and has read none", len(all)))
		}
	})
}
