// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/faults"
)

func added() types.Feature {
	return features.New("a new key is in the file").
		Assess("one, and many at once", check.Assess(assess(func(v *visit) {
			v.addWritten("ada")
			for range 10 {
				v.add("grace")
			}
			v.holds("ten AuthorizedKeys were created at once")
		}))).Feature()
}

func changed() types.Feature {
	return features.New("a key that changes").
		Assess("replaces the old one", check.Assess(assess(func(v *visit) {
			ada := v.add("ada")
			v.add("grace")
			v.holds("two AuthorizedKeys were created")
			v.changeKey(ada)
			v.holds("the key of " + ada + " has changed")
		}))).
		Assess("also while other events come without a pause", check.Assess(assess(func(v *visit) {
			v.removeAll()
			ada, grace, busy := v.add("ada"), v.add("grace"), v.add("busy")
			v.holds("three AuthorizedKeys were created")
			stop := v.keepLabelling(busy, grace)
			defer stop()
			const underLoad = "while labels of AuthorizedKeys change all the time, "
			v.changeKey(grace)
			v.holds(underLoad + "the key of " + grace + " has changed")
			v.add("edsger")
			v.holds(underLoad + "a fourth AuthorizedKey was created")
			v.remove(ada)
			v.holds(underLoad + ada + " was deleted")
			stop()
			v.repairedAfterEvents(grace)
		}))).Feature()
}

// labelEach is the time between two changes of labels. A controller may wait for a moment without events, as long as it
// does not wait forever.
const labelEach = 100 * time.Millisecond

// repairedAfterEvents fails the check unless the controller compares the file even after events that change no key.
func (v *visit) repairedAfterEvents(name string) {
	v.t.Helper()
	v.Idle(v.ctx, v.t) // its remaining work would repair the file as well
	v.removeFile()
	v.label(name)
	v.holds("another program had removed the file, and a label of " + name + " has changed since")
	v.writeAtRest(lineOf(name, v.drawKey()) + "\n")
	v.patch(name, `{"metadata":{"annotations":{"example.com/shift":"day"}}}`)
	v.holds("another program had changed the file, and an annotation of " + name + " has changed since")
}

// keepLabelling changes the labels of AuthorizedKeys continuously, until stop is called.
func (v *visit) keepLabelling(names ...string) (stop func()) {
	ctx, cancel := context.WithCancel(v.ctx)
	var labelling sync.WaitGroup
	labelling.Go(func() {
		ticks := time.NewTicker(labelEach)
		defer ticks.Stop()
		for n := 0; ; n++ {
			for _, name := range names {
				patch := fmt.Appendf(nil, `{"metadata":{"labels":{"shift":"%d"}}}`, n)
				// A failed change only means one event less.
				_, _ = v.node.keys.Patch(ctx, name, apitypes.MergePatchType, patch, metav1.PatchOptions{})
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); labelling.Wait() }
}

func deleted() types.Feature {
	return features.New("a key that is deleted").
		Assess("leaves the file", check.Assess(assess(func(v *visit) {
			ada, grace := v.add("ada"), v.add("grace")
			v.holds("two AuthorizedKeys were created")
			// During its remaining work the controller would notice the deletion, too.
			v.Idle(v.ctx, v.t)
			v.remove(ada)
			v.holds(ada + " was deleted")
			v.remove(grace)
			v.holds("the last AuthorizedKey was deleted")
		}))).Feature()
}

// tombstone deletes an object while the operator's watch is broken, before the operator lists again. The list no longer
// has the object, and no event explains why.
func tombstone() types.Feature {
	return features.New("a key that is deleted while the watch is away").
		Assess("leaves the file", check.Assess(assess(func(v *visit) {
			for range attempts {
				lost := v.addWritten("lost")
				v.Idle(v.ctx, v.t)
				v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
					{Kind: faults.Break, Class: faults.Write, Service: faults.API, At: 1},
				}}))
				// The watches break at the write of its status. It is deleted as well, so that no other event makes the operator
				// check the file.
				began, mark := time.Now(), v.Audit.Now()
				last := v.add("last")
				v.EventuallyWithin(v.ctx, v.t, "the operator writes the status of "+last, scenarioPatience, v.Audit.Changed,
					func() (string, bool) {
						return "it does not", v.broken(began)
					})
				v.remove(last)
				v.remove(lost)
				deletedAt := v.deletedAt(lost)
				v.holdsWithin(last+" and "+lost+" were deleted while the watch was away", scenarioPatience)
				v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
				listed := v.Audit.Since(mark, v.lists())
				if len(listed) > 0 && listed[0].Time.After(deletedAt) {
					return
				}
			}
		}))).Feature()
}

// broken reports whether the operator's watch was broken off.
func (v *visit) broken(since time.Time) bool {
	v.t.Helper()
	log, err := v.Faults.Log(v.ctx)
	v.OK(v.t, "reading the log of requests", err)
	met := false
	var watch *faults.Entry
	for i, e := range log {
		met = met || e.Fault == faults.Break && e.Time.After(since)
		if e.Verb == "watch" && e.Resource == keysResource.Resource && e.Code == http.StatusOK {
			watch = &log[i]
		}
	}
	return met && watch != nil && watch.Seconds > 0
}

func sameKey() types.Feature {
	return features.New("several objects with the same key").
		Assess("go one by one", check.Assess(assess(func(v *visit) {
			v.restart(never, func() {})
			ada, key := v.drawName("ada"), v.drawKey()
			// The line of ada is a part of two other lines.
			for _, name := range []string{v.drawName("grace"), ada + "-laptop", ada + ".laptop"} {
				v.create(name, key+" the same one")
				v.keys[name] = key
			}
			v.holds("three AuthorizedKeys have the same key")
			v.create(ada, key)
			v.keys[ada] = key
			v.holds("a fourth AuthorizedKey has the same key, and its name is a prefix of the names of others")
			v.remove(ada)
			v.remove(ada + ".laptop")
			v.holds(ada + " and " + ada + ".laptop were deleted, and others with the same key were not")
		}))).
		Assess("and leave that of others", check.Assess(assess(func(v *visit) {
			v.removeAll()
			ada, key := v.drawName("ada"), v.drawKey()
			v.foreign = strings.Join([]string{
				key + " written by hand", "# " + lineOf(ada, key), "#" + lineOf(ada, key),
				lineOf(ada, key) + " was here", "no-pty " + key, key,
			}, "\n") + "\n"
			v.restart(never, func() { v.write(v.foreign) })
			v.create(ada, key)
			v.keys[ada] = key
			v.holds("an administrator had written the key of an AuthorizedKey into the file by hand, in comments, too")
			v.remove(ada)
			v.holds(ada + " was deleted, and an administrator had written the same key into the file by hand")
			v.node.sameKeys = true
		}))).Feature()
}

// scenario is a busy minute, in short.
func scenario(v *visit) {
	ada, grace := v.add("ada"), v.add("grace")
	v.holdsWithin("two AuthorizedKeys were created", scenarioPatience)
	v.add("edsger")
	v.remove(ada)
	v.changeKey(grace)
	v.holdsWithin(fmt.Sprintf("%s was deleted, %s has another key, and there is a third one", ada, grace),
		scenarioPatience)
	wrong := v.drawName("mallory")
	v.create(wrong, `command="/bin/sh" `+v.drawKey())
	v.accepted(wrong, metav1.ConditionFalse, scenarioPatience)
	v.accepted(grace, metav1.ConditionTrue, scenarioPatience)
	v.holdsWithin("at the end", scenarioPatience)
	if strings.Contains(v.content(), "command=") {
		v.Fail(v.t, "no option of a key gets into the file", "it has one")
	}
}
