// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/faults"
)

// scenarioPatience is how long an operator may be silent in the scenario: it may just have been killed, or been told to come back later.
const scenarioPatience = 10 * time.Second

// lists matches what the operator asks for to fill its cache.
func (v *visit) lists() audit.Match {
	return v.ByOperator().And(func(e audit.Event) bool {
		return e.Resource == keysResource.Resource && e.Verb == "list" && e.Code < 300
	})
}

// deletedAt is when the API server was asked to delete an object.
func (v *visit) deletedAt(name string) time.Time {
	for _, e := range v.Audit.Since(0, audit.On(keysResource.Group, keysResource.Resource)) {
		if e.Verb == "delete" && e.Name == name {
			return e.Time
		}
	}
	return time.Now()
}

// accepted waits until the condition Accepted of an object has a status, for its present generation.
func (v *visit) accepted(name string, want metav1.ConditionStatus, patience time.Duration) {
	v.t.Helper()
	reason := map[metav1.ConditionStatus]string{metav1.ConditionTrue: "ValidKey", metav1.ConditionFalse: "InvalidKey"}[want]
	v.EventuallyWithin(v.ctx, v.t, fmt.Sprintf("the condition Accepted of %s is %s, with the reason %s, for the present generation", name, want, reason),
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
				return fmt.Sprintf("it is %v, with the reason %v, of generation %v; present is generation %d", c["status"], c["reason"], c["observedGeneration"], o.GetGeneration()),
					c["status"] == string(want) && c["reason"] == reason && c["observedGeneration"] == o.GetGeneration()
			}
			return "it has no such condition", false
		})
}

// warned waits until there is a Warning about each of these AuthorizedKeys, besides those that are known.
func (v *visit) warned(known map[string]string, names ...string) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, "there is an Event of type Warning about each AuthorizedKey that is not accepted", filePatience, v.node.Changed, func() (string, bool) {
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
			// Of a new object with the name of an earlier one nothing is known yet. It begins with the same generation.
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
			v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
			v.foreign = lineOf("ghost", v.drawKey()) // which this program must not know of
			v.write(v.foreign)
			v.OK(v.t, "starting the operator with "+flag+" as in config/manager", v.node.startWith(v.ctx, "", shortResync))
			ada, mallory := v.add("ada"), v.drawName("mallory")
			v.create(mallory, "hello")
			v.accepted(ada, metav1.ConditionTrue, filePatience)
			v.accepted(mallory, metav1.ConditionFalse, filePatience)
			v.Idle(v.ctx, v.t)
			if content := v.content(); content != v.foreign {
				v.Fail(v.t, "a controller that was started with "+flag+", as in the Deployment, keeps no file", fmt.Sprintf("it has written %q", shorten(content)))
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

// stopped ends an operator that was started otherwise than usual.
func stopped(ctx context.Context, c *check.Check) error { return c.Operator.Stop(ctx) }

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
			// Half of them before a restart, and half after it: client-go sends ten requests at once, and then five a second.
			create(map[string]string{
				"two-lines":   key + "\n" + other,
				"second-line": "# a comment\n" + key,
				"return":      key + "\r" + other,
				"command":     `command="/bin/sh -i" ` + key,
				"forwarding":  "no-pty " + key,
				"word":        "hello",
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
			})
			// Right ones: one as an id_ed25519.pub has it, and one whose comment looks like a mark.
			v.add("ada")
			imitator := v.drawName("imitator")
			v.keys[imitator] = v.drawKey()
			v.create(imitator, v.keys[imitator]+" "+mark+"somebody")
			refused()
			for name := range v.keys {
				v.accepted(name, metav1.ConditionTrue, filePatience)
			}
			v.holds("of all AuthorizedKeys two are valid")
		}))).
		Assess("also one that was valid", check.Assess(assess(func(v *visit) {
			v.foreign = others + "\n"
			v.removeAll()
			ada := v.add("ada")
			v.holds("an AuthorizedKey was created")
			key := v.keys[ada]
			delete(v.keys, ada)
			v.set(ada, "restrict "+key)
			v.accepted(ada, metav1.ConditionFalse, filePatience)
			v.holds(ada + " was valid, and is not any longer")
			v.keys[ada] = key
			v.set(ada, key)
			v.accepted(ada, metav1.ConditionTrue, filePatience)
			v.holds(ada + " is valid again")
			told := v.node.warnings(ada)
			v.remove(ada)
			v.create(ada, "hello")
			v.accepted(ada, metav1.ConditionFalse, filePatience)
			v.warned(told, ada)
			v.holds(ada + " was deleted, and one of this name was created, which is not valid")
		}))).
		Assess("and each type of key is accepted", check.Assess(assess(func(v *visit) {
			v.foreign = others + "\n"
			v.removeAll()
			var first string
			for _, algorithm := range slices.Concat(tokenTypes, ordinaryTypes) {
				name := v.drawName("ada.lovelace")
				v.keys[name] = v.drawKeyOf(algorithm)
				v.create(name, v.keys[name]+" "+algorithm)
				first = cmp.Or(first, name)
			}
			v.holds("there is an AuthorizedKey with a key of each type that golang.org/x/crypto/ssh can parse")
			v.accepted(first, metav1.ConditionTrue, filePatience) // the others have statuses in a second or two
		}))).Feature()
}

// shortResync is the shortest that client-go allows, and resyncPatience how long an operator with that may take.
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
			// What the controller still has to do would repair the file as well.
			v.Idle(v.ctx, v.t)
			v.foreign = "# I was here\n"
			v.write(v.foreign + lineOf(ada, v.drawKey()) + "\n" + `command="/bin/sh" ` + lineOf(ada, v.keys[ada]) + "\n" +
				strings.Repeat(lineOf(ada, v.keys[ada])+"\n", 2) + v.ghosts() + "\n")
			v.holdsWithin("another program has changed, repeated and put an option before the line of "+ada+", removed that of "+grace+
				", and added lines of AuthorizedKeys that do not exist", resyncPatience)
			v.OK(v.t, "changing the mode", v.node.within(func(folder *os.Root) error { return folder.Chmod(fileName, 0o666) }))
			v.hasMode("somebody has made the file writable for all, and a resync repairs it", resyncPatience)
			v.removeAll()
			v.holds("all AuthorizedKeys were deleted")
			v.Settle(v.ctx, v.t) // what it writes now, it has read before
			v.write(v.foreign + lineOf("ghost", v.drawKey()) + "\n")
			v.holdsWithin("there is no AuthorizedKey, and somebody has added a line of one", resyncPatience)
		}))).
		Teardown(check.Teardown(stopped)).Feature()
}

// How long the API server does not answer the list with which a cache begins: until the operator has waited for it for emptyFor, and listHeld
// at most.
const (
	listHeld = 2 * time.Second
	emptyFor = 200 * time.Millisecond
	listLook = 10 * time.Millisecond
)

// askedForList is when the operator has first asked for the AuthorizedKeys since then, whether it got an answer or not.
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

// stillHeld reports whether the operator can't have got an answer to that yet. On a busy machine it may have got one
// before the check has looked at what it does without.
func (v *visit) stillHeld(since time.Time) bool {
	v.t.Helper()
	at, asked := v.askedForList(since)
	return asked && time.Since(at) < listHeld
}

// holdList has the API server hold its first answers, and returns the time from when on.
func (v *visit) holdList() time.Time {
	v.t.Helper()
	began := time.Now()
	v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
		{Kind: faults.Slow, Class: faults.Read, Service: faults.API, For: metav1.Duration{Duration: listHeld}},
	}}))
	return began
}

// awaitList waits until the operator has asked for the AuthorizedKeys, for scenarioPatience at most. An operator that has
// not begun yet knows no SIGTERM.
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
			deeds, _ := v.node.since(first)
			held := v.stillHeld(began)
			if held && now != before {
				v.Fail(v.t, expected, "it has written it: "+v.node.wrong(v.keys, v.foreign))
			}
			if held && len(deeds) > 0 {
				v.Fail(v.t, expected, "its content is the same, and yet the controller has touched it: "+strings.ToLower(deeds[0].Op.String()))
			}
			v.add("edsger")
			v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
			v.holdsWithin("a third AuthorizedKey was created after a restart", scenarioPatience)
			v.Idle(v.ctx, v.t)
			replaced := 0
			deeds, _ = v.node.since(first)
			for _, deed := range deeds {
				if deed.Has(fsnotify.Create) {
					replaced++
				}
			}
			if replaced > 1 {
				v.Fail(v.t, "after a restart only what has changed since is written: of three AuthorizedKeys one is new, so the file is replaced once",
					fmt.Sprintf("it was replaced %d times: line by line, or by several workers, each of which had read it before "+
						"another one replaced it", replaced))
			}
		}))).Feature()
}

func whileDown() types.Feature {
	return features.New("what is deleted while the controller is down").
		Assess("goes when it starts", check.Assess(assess(func(v *visit) {
			ada, grace := v.add("ada"), v.add("grace")
			v.holds("two AuthorizedKeys were created")
			v.restart(never, func() {
				v.remove(ada)
				v.keys[grace] = v.drawKey()
				v.set(grace, v.keys[grace])
				v.add("edsger")
			})
			v.holds(ada + " was deleted, the key of " + grace + " has changed, and a third AuthorizedKey was created while the controller was down")
			v.removeAll()
			grace = v.add("grace")
			v.holds("all but one AuthorizedKey were deleted")
			v.restart(never, func() { v.remove(grace) })
			v.holds("the last AuthorizedKey was deleted while the controller was down")
		}))).Feature()
}

// How long the API server refuses at most, and how long an operator must have waited at least once meanwhile: with a delay that doubles from
// 5 ms it has tried eight times after 1.3 s, and waited for 640 ms before the last of them. One that does not wait is held up by client-go's
// limit (five a second, after the first ten), and on a busy machine by that.
const (
	refuseFor  = 2 * time.Second
	refuseLook = 50 * time.Millisecond
	mostTries  = 14
	leastWait  = 400 * time.Millisecond
)

// How long a folder is in the place of the file at most, and how often the controller may have tried to replace it meanwhile: with a delay that
// doubles from 5 ms it has tried seven times after 315 ms, and tries again 320 ms later. One that gives up after five times does not.
const (
	fileRefusedFor = 500 * time.Millisecond
	fileTries      = 7
)

// refusals are how often the status of an object was tried to be written since then, the time since the first try, 0 if there was none, and
// the longest wait between two of them.
func (v *visit) refusals(name string, since time.Time) (tries int, took, longest time.Duration) {
	v.t.Helper()
	log, err := v.Faults.Log(v.ctx)
	v.OK(v.t, "reading the log of requests", err)
	refused := slices.DeleteFunc(log, func(e faults.Entry) bool { return !e.Injected || !e.Time.After(since) || e.Name != name })
	for i, e := range refused {
		if i > 0 {
			longest = max(longest, e.Time.Sub(refused[i-1].Time))
		}
	}
	if len(refused) > 0 {
		took = time.Since(refused[0].Time)
	}
	return check.Tries(refused), took, longest
}

func retries() types.Feature {
	return features.New("what fails is tried again").
		Assess("less and less often", check.Assess(assess(func(v *visit) {
			v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{{Kind: faults.ServerError, Class: faults.Write, Service: faults.API}}}))
			began := time.Now()
			ada := v.add("ada")
			var tries int
			var took, longest time.Duration
			// On a busy machine the first try may come late.
			for took < refuseFor && longest < leastWait && (tries > 0 || time.Since(began) < filePatience) {
				v.Pause(v.ctx, v.t, refuseLook)
				tries, took, longest = v.refusals(ada, began)
			}
			const expected = "while the API server refuses the status of an AuthorizedKey, it is written again, and less and less often"
			if tries < 2 {
				v.Fail(v.t, expected, fmt.Sprintf("within %s it was tried %d times", time.Since(began).Round(time.Second/10), tries))
			}
			if longest < leastWait || tries > mostTries {
				v.Fail(v.t, expected, fmt.Sprintf("within %s it was tried %d times, and the longest wait between two of them was %s",
					took.Round(time.Second/10), tries, longest.Round(time.Millisecond)))
			}
			v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
			// Most operators look at a change at once. The next try may be 1.3 s away.
			v.patch(ada, `{"metadata":{"labels":{"shift":"night"}}}`)
			v.accepted(ada, metav1.ConditionTrue, scenarioPatience)
			v.holds("an AuthorizedKey was created")
		}))).
		Assess("until the file can be written", check.Assess(assess(func(v *visit) {
			v.removeAll()
			v.holds("all AuthorizedKeys were deleted")
			// With an empty queue: what is left in it of the other step would write the file as well.
			v.restart(never, func() {
				v.OK(v.t, "removing the file", v.node.within(func(folder *os.Root) error { return folder.RemoveAll(fileName) }))
				// A folder with something in it can't be replaced by a file, not even by root.
				v.OK(v.t, "making a folder of that name", v.node.within(func(folder *os.Root) error {
					return folder.MkdirAll(filepath.Join(fileName, "in-the-way"), 0o700)
				}))
			})
			before := v.node.draftsMade()
			ada := v.add("ada")
			v.accepted(ada, metav1.ConditionTrue, filePatience)
			// Each attempt makes a temporary file, or so it does in most controllers.
			for began := time.Now(); v.node.draftsMade()-before < fileTries && time.Since(began) < fileRefusedFor; {
				v.Pause(v.ctx, v.t, refuseLook)
			}
			v.OK(v.t, "removing the folder", v.node.within(func(folder *os.Root) error { return folder.RemoveAll(fileName) }))
			v.holdsWithin("for a moment the file could not be written, since there was a folder of that name", scenarioPatience)
		}))).Feature()
}

// endsWithin is how soon a controller has to end, and endsLags how many times the lag of a busy machine it may take besides.
const (
	endsWithin = 3 * time.Second
	endsLags   = 10
)

func shutdown() types.Feature {
	return features.New("it ends when it is asked to").
		Assess("also while a request is not answered", check.Assess(assess(func(v *visit) {
			v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{{Kind: faults.NoAnswer, Class: faults.Write, Service: faults.API}}}))
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
				v.Fail(v.t, "a controller that ends before its cache is full leaves the file as it is", "it has written it: "+v.node.wrong(nil, v.foreign))
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
			v.OK(v.t, "making a folder of the file's name", v.node.within(func(folder *os.Root) error {
				return errors.Join(folder.RemoveAll(fileName), folder.MkdirAll(filepath.Join(fileName, "in-the-way"), 0o700))
			}))
			v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
				{Kind: faults.Slow, Class: faults.Write, Service: faults.API, For: metav1.Duration{Duration: writeHeld}},
			}}))
			began := time.Now()
			v.OK(v.t, "starting the operator", v.node.start(v.ctx, never))
			v.awaitWrite(began)
			v.ends(fmt.Sprintf("takes %s to answer a write, the statuses of %d AuthorizedKeys are to be written, and the file can't be replaced", writeHeld, muchToDo))
			v.OK(v.t, "removing the folder", v.node.within(func(folder *os.Root) error { return folder.RemoveAll(fileName) }))
		}))).Feature()
}

// How many AuthorizedKeys have no status yet when the controller is asked to end, and how long the API server takes for each write: a controller
// that writes them all before it ends takes several times as long as it may, also with five workers.
const (
	muchToDo  = 40
	writeHeld = 500 * time.Millisecond
)

// awaitWrite waits until the operator has sent a write since then, whether it got an answer or not.
func (v *visit) awaitWrite(since time.Time) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, "the controller writes the status of an AuthorizedKey", filePatience, v.node.Changed, func() (string, bool) {
		log, err := v.Faults.Log(v.ctx)
		v.OK(v.t, "reading the log of requests", err)
		return "it does not", slices.ContainsFunc(log, func(e faults.Entry) bool { return e.Write && e.Time.After(since) })
	})
}

// ends fails the check unless the operator ends when it is asked to, and calls that no failure.
func (v *visit) ends(meanwhile string) {
	v.t.Helper()
	began := time.Now()
	failure, err := v.Operator.End(v.ctx)
	v.OK(v.t, "stopping the operator", err)
	expected := fmt.Sprintf("the controller ends within %s after SIGTERM, with exit code 0, also while the API server %s",
		endsWithin, meanwhile)
	if took := time.Since(began); took > endsWithin+endsLags*v.Lag() {
		v.Fail(v.t, expected, fmt.Sprintf("after %s it had to be killed", took.Round(100*time.Millisecond)))
	}
	if failure != "" {
		v.Fail(v.t, expected, "it ended with "+failure)
	}
}

// untilSeen is how long an operator takes to hear of a change, so that it hears of three and not of one.
const untilSeen = 50 * time.Millisecond

func settles() types.Feature {
	return features.New("at rest once right").
		Assess("when something changes that does not matter", check.Assess(assess(func(v *visit) {
			v.restart(0, func() {}) // a controller whose clock is off must not look without a pause
			ada := v.add("ada")
			for range 4 {
				v.add("grace") // of five there are 120 orders
			}
			v.holds("five AuthorizedKeys were created")
			for name := range v.keys {
				v.accepted(name, metav1.ConditionTrue, filePatience)
			}
			v.Idle(v.ctx, v.t) // it comes to rest at the end
			_, mark := v.node.since(0)
			began := v.Audit.Now()
			for n := range 3 {
				v.patch(ada, fmt.Sprintf(`{"metadata":{"labels":{"shift":"%d"}}}`, n))
				v.Pause(v.ctx, v.t, untilSeen)
			}
			v.AtRest(v.ctx, v.t)
			own := check.NoEventOfOthers(slices.Collect(maps.Keys(v.keys))...)
			if writes := v.Audit.Since(began, v.ByOperator().And(audit.Writes, own)); len(writes) > 0 {
				v.Fail(v.t, "only a label of "+ada+" has changed, and the controller writes nothing: no status, no Event", fmt.Sprintf("it sent %d writes", len(writes)), audit.Lines(writes)...)
			}
			// Not the inode tells: the next file may get that of the last one.
			if deeds, _ := v.node.since(mark); len(deeds) > 0 {
				v.Fail(v.t, "only a label of "+ada+" has changed, and the file is left alone", "it was replaced by one with the same content")
			}
		}))).
		Teardown(check.Teardown(stopped)).Feature()
}
