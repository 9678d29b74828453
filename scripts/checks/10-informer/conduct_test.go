// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
)

// scenarioPatience is how long an operator may be silent in the scenario: a fault may just have killed it, or asked it
// to retry later.
const scenarioPatience = 10 * time.Second

// lists matches the requests with which the operator fills its cache.
func (v *visit) lists() audit.Match {
	return v.ByOperator().And(func(e audit.Event) bool {
		return e.Resource == keysResource.Resource && e.Verb == "list" && e.Code < 300
	})
}

// deletedAt returns when the API server received the request to delete an object.
func (v *visit) deletedAt(name string) time.Time {
	for _, e := range v.Audit.Since(0, audit.On(keysResource.Group, keysResource.Resource)) {
		if e.Verb == "delete" && e.Name == name {
			return e.Time
		}
	}
	return time.Now()
}

// shortResync is the shortest resync period that client-go allows, and resyncPatience is how long an operator with that
// period may take.
const (
	shortResync    = time.Second
	resyncPatience = 6 * time.Second
)

func resync() types.Feature {
	return features.New("a resync repairs the file").
		Assess("and nothing else has happened", check.Assess(assess(func(v *visit) {
			v.restart(shortResync, func() {})
			ada, grace := v.add("ada"), v.add("grace")
			v.holds("two AuthorizedKeys were created")
			// The controller's remaining work would repair the file as well.
			v.Idle(v.ctx, v.t)
			v.foreign = "# I was here\n"
			v.write(v.foreign + lineOf(ada, v.drawKey()) + "\n" + `command="/bin/sh" ` + lineOf(ada, v.keys[ada]) + "\n" +
				strings.Repeat(lineOf(ada, v.keys[ada])+"\n", 2) + v.ghosts() + "\n")
			v.holdsWithin("another program has changed, repeated and put an option before the line of "+ada+
				", removed that of "+grace+", and added lines of AuthorizedKeys that do not exist", resyncPatience)
			v.inFolder("changing the mode", func(folder *os.Root) error { return folder.Chmod(fileName, 0o666) })
			v.hasMode("another program made the file writable for all, and a resync repairs it", resyncPatience)
			v.removeAll()
			v.holds("all AuthorizedKeys were deleted")
			v.writeAtRest(v.foreign + lineOf("ghost", v.drawKey()) + "\n")
			v.holdsWithin("there is no AuthorizedKey, and another program has added a line of one", resyncPatience)
		}))).
		Teardown(check.Teardown(stopped)).Feature()
}

// These constants limit how long the API server delays its answer to the list with which a cache begins: until the
// operator has waited emptyFor for it, but no longer than listHeld.
const (
	listHeld = 2 * time.Second
	emptyFor = 200 * time.Millisecond
	listLook = 10 * time.Millisecond
)

// askedForList returns when the operator first listed the AuthorizedKeys since then, whether it got an answer or not.
func (v *visit) askedForList(since time.Time) (at time.Time, asked bool) {
	v.t.Helper()
	log, err := v.Faults.Log(v.ctx)
	v.OK(v.t, "reading the log of requests", err)
	for _, e := range log {
		if e.Verb == "list" && e.Resource == keysResource.Resource && e.Time.After(since) {
			return e.Time, true
		}
	}
	return time.Time{}, false
}

// stillHeld reports whether the answer to that list must still be delayed. On a busy machine the operator may have got
// the answer before the check has tested what it does without.
func (v *visit) stillHeld(since time.Time) bool {
	v.t.Helper()
	at, asked := v.askedForList(since)
	return asked && time.Since(at) < listHeld
}

// holdList makes the API server delay its first answers, and returns the time of the beginning.
func (v *visit) holdList() time.Time {
	v.t.Helper()
	began := time.Now()
	v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
		{Kind: faults.Slow, Class: faults.Read, Service: faults.API, For: metav1.Duration{Duration: listHeld}},
	}}))
	return began
}

// awaitList waits until the operator has listed the AuthorizedKeys, for scenarioPatience at most. An operator that has
// not started yet does not handle SIGTERM.
func (v *visit) awaitList(since time.Time) {
	v.t.Helper()
	for time.Since(since) < scenarioPatience {
		if _, asked := v.askedForList(since); asked {
			return
		}
		v.Pause(v.ctx, v.t, listLook)
	}
}

func cachesFirst() types.Feature {
	return features.New("no work before the cache is full").
		Assess("after a start", check.Assess(assess(func(v *visit) {
			v.add("ada")
			v.add("grace")
			v.holds("two AuthorizedKeys were created")
			before := v.content()
			var first int
			var began time.Time
			v.restart(never, func() {
				_, first = v.node.since(0)
				began = v.holdList()
			})
			v.awaitList(began)
			v.Pause(v.ctx, v.t, emptyFor)
			const expected = "while the API server has not answered its first list, the controller leaves the file alone"
			now := v.content()
			events, _ := v.node.since(first)
			held := v.stillHeld(began)
			if held && now != before {
				v.Fail(v.t, expected, "it has written it: "+v.node.wrong(v.keys, v.foreign))
			}
			if held && len(events) > 0 {
				v.Fail(v.t, expected, "its content is the same, and yet the controller has touched it: "+
					strings.ToLower(events[0].Op.String()))
			}
			v.add("edsger")
			v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
			v.holdsWithin("a third AuthorizedKey was created after a restart", scenarioPatience)
			v.Idle(v.ctx, v.t)
			if replaced := v.node.replaced(first); replaced > 1 {
				v.Fail(v.t, "after a restart only what has changed since is written: of three AuthorizedKeys one is new, "+
					"so the file is replaced once",
					fmt.Sprintf("it was replaced %d times: line by line, or by several workers, each of which had read it before "+
						"another one replaced it", replaced))
			}
		}))).Feature()
}

func whileDown() types.Feature {
	return features.New("what is deleted while the controller is down").
		Assess("is removed when it starts", check.Assess(assess(func(v *visit) {
			ada, grace := v.add("ada"), v.add("grace")
			v.holds("two AuthorizedKeys were created")
			v.restart(never, func() {
				v.remove(ada)
				v.changeKey(grace)
				v.add("edsger")
			})
			v.holds(ada + " was deleted, the key of " +
				grace + " has changed, and a third AuthorizedKey was created while the controller was down")
			v.removeAll()
			grace = v.add("grace")
			v.holds("all but one AuthorizedKey were deleted")
			v.restart(never, func() { v.remove(grace) })
			v.holds("the last AuthorizedKey was deleted while the controller was down")
		}))).Feature()
}

// endsWithin is how quickly a controller has to end. On a busy machine it gets the lag, multiplied by busyLags, in
// addition.
const (
	endsWithin = 3 * time.Second
	busyLags   = 10
)

func shutdown() types.Feature {
	return features.New("it ends when it is asked to").
		Assess("also while a request is not answered", check.Assess(assess(func(v *visit) {
			v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{{
				Kind: faults.NoAnswer, Class: faults.Write, Service: faults.API,
			}}}))
			began := time.Now()
			v.add("ada")
			v.awaitWrite(began)
			v.ends("does not answer a request")
		}))).
		Assess("also while the cache fills", check.Assess(assess(func(v *visit) {
			v.foreign = others + "\n"
			before := v.foreign + lineOf("ghost", v.drawKey()) + "\n"
			v.write(before)
			began := v.holdList()
			v.OK(v.t, "starting the operator", v.node.start(v.ctx, never))
			v.awaitList(began)
			v.ends("has not answered its first list")
			if content := v.content(); v.stillHeld(began) && content != before {
				v.Fail(v.t, "a controller that ends before its cache is full leaves the file as it is",
					"it has written it: "+v.node.wrong(nil, v.foreign))
			}
		}))).
		Assess("also while there is much to do", check.Assess(assess(func(v *visit) {
			for n := range muchToDo {
				if n%5 == 0 {
					v.create(v.drawName("mallory"), "hello")
				} else {
					v.add("ada")
				}
			}
			v.obstruct()
			v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
				{Kind: faults.Slow, Class: faults.Write, Service: faults.API, For: metav1.Duration{Duration: writeHeld}},
			}}))
			began := time.Now()
			v.OK(v.t, "starting the operator", v.node.start(v.ctx, never))
			v.awaitWrite(began)
			v.ends(fmt.Sprintf("takes %s to answer a write, "+
				"the statuses of %d AuthorizedKeys are to be written, and the file can't be replaced", writeHeld, muchToDo))
			v.removeFile()
		}))).Feature()
}

// These constants are how many AuthorizedKeys have no status yet when the controller is asked to end, and how long the
// API server takes for each write. A controller that writes them all before it ends takes several times as long as it
// may, even with five workers.
const (
	muchToDo  = 40
	writeHeld = 500 * time.Millisecond
)

// awaitWrite waits until the operator has sent a write since then, whether it got an answer or not.
func (v *visit) awaitWrite(since time.Time) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, "the controller writes the status of an AuthorizedKey",
		filePatience, v.node.Changed, func() (string, bool) {
			log, err := v.Faults.Log(v.ctx)
			v.OK(v.t, "reading the log of requests", err)
			return "it does not", slices.ContainsFunc(log, func(e faults.Entry) bool { return e.Write && e.Time.After(since) })
		})
}

// ends fails the check unless the operator ends when it is asked to, and does not report that as a failure.
func (v *visit) ends(fault string) {
	v.t.Helper()
	began, most := time.Now(), endsWithin+busyLags*v.Lag()
	failure, err := v.Operator.End(v.ctx, most+2*time.Second)
	v.OK(v.t, "stopping the operator", err)
	expected := fmt.Sprintf("the controller ends within %s after SIGTERM, with exit code 0, also while the API server %s",
		endsWithin, fault)
	if took := time.Since(began); took > most {
		v.Fail(v.t, expected, fmt.Sprintf("after %s it had to be killed", took.Round(100*time.Millisecond)))
	}
	if failure != "" {
		v.Fail(v.t, expected, "it ended with "+failure)
	}
}

// labelChanges is the total number of label changes. A rate limiter of client-go allows 100 items, and then ten per
// second.
const labelChanges = 300

// labelOften changes the labels of several AuthorizedKeys concurrently.
func (v *visit) labelOften(names ...string) {
	v.t.Helper()
	group, ctx := errgroup.WithContext(v.ctx)
	for _, name := range names {
		group.Go(func() error {
			for n := range labelChanges / len(names) {
				patch := fmt.Appendf(nil, `{"metadata":{"labels":{"shift":"%d"}}}`, n)
				if _, err := v.node.keys.Patch(ctx, name, apitypes.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	v.OK(v.t, "changing labels", group.Wait())
}

func settles() types.Feature {
	return features.New("at rest once right").
		Assess("when something changes that does not matter", check.Assess(assess(func(v *visit) {
			v.restart(0, func() {}) // a controller without a resync must not retry without a pause
			ada := v.add("ada")
			key := v.drawKey()
			for range 4 { // five lines have 120 orders, and four with the same key and time still have 24
				grace := v.drawName("grace")
				if !v.node.sameKeys {
					key = v.drawKey()
				}
				v.create(grace, key)
				v.keys[grace] = key
			}
			v.holds("five AuthorizedKeys were created")
			for name := range v.keys {
				v.accepted(name, metav1.ConditionTrue, filePatience)
			}
			v.Idle(v.ctx, v.t) // the operator comes to rest at the end
			_, mark := v.node.since(0)
			began := v.Audit.Now()
			v.labelOften(slices.Collect(maps.Keys(v.keys))...)
			v.changeKey(ada)
			const since = "labels have changed hundreds of times, which delays no later event, and the key of "
			v.holds(since + ada + " has changed")
			v.accepted(ada, metav1.ConditionTrue, filePatience)
			v.AtRest(v.ctx, v.t)
			const expected = "after only labels of five AuthorizedKeys, and the key of one, have changed, "
			others := slices.DeleteFunc(slices.Collect(maps.Keys(v.keys)), func(name string) bool { return name == ada })
			own := check.NoEventOfOthers(slices.Collect(maps.Keys(v.keys))...)
			writes := v.Audit.Since(began, v.ByOperator().And(audit.Writes, own, func(e audit.Event) bool {
				return e.Name != ada
			}))
			if len(writes) > 0 {
				v.Fail(v.t, expected+"the controller writes nothing for "+
					english.WordSeries(others, "and")+", no status and no Event",
					fmt.Sprintf("it sent %d writes", len(writes)), audit.Lines(writes)...)
			}
			// The inode does not show it, because the next file may reuse the inode of the last one.
			if replaced := v.node.replaced(mark); replaced > 1 {
				v.Fail(v.t, expected+"the controller replaces the file once",
					fmt.Sprintf("it was replaced by one with the same content, %d times in all", replaced))
			}
		}))).
		Teardown(check.Teardown(stopped)).Feature()
}
