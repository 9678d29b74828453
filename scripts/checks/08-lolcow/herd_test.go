// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// These are the namespaces of the checks. In the paddock, the stable and the corner a quota forbids all Pods. The
// failing Lolcows are in two namespaces, so that a Service that also selects the Pods of others is found by the check
// for that, and not by chance by a check of pages.
const (
	meadow           = "lolcow-meadow"
	sickbay          = "lolcow-sickbay"
	ward             = "lolcow-ward"
	paddock          = "lolcow-paddock"
	stable           = "lolcow-stable"
	corner           = "lolcow-corner"
	pendingNamespace = "lolcow-barn" // Pods are created, and never start
)

var allNamespaces = []string{meadow, sickbay, ward, paddock, stable, corner, pendingNamespace}

// herd holds all Lolcows of the run.
type herd struct {
	*workload.Owners
	random *rand.Rand
	ports  *workload.Ports
	names  int
	// first is a Lolcow with a page for the checks that need one. Nil: there is none, or a failed check has changed it.
	first *pageCow
	// failingCows are Lolcows for a later check, started with the first one.
	failingCows *failingCows
	// fortuneCow is a Lolcow without a greeting, and unchangedCow is one that no check changes. Nil: there is none.
	fortuneCow, unchangedCow *cow
	// driftCows are Lolcows whose children are deleted and edited by hand. Empty: there are none.
	driftCows []*cow
	// foreigners are Lolcows whose children's names are taken by foreign objects. Nil: there are none.
	foreigners *foreigners
	// checkRunning means that the running check has not ended yet.
	checkRunning bool
	// occupation is a Lolcow whose port another Service has, or had. Nil: there is none.
	occupation *occupation
	// restarted is the result of a restart of the operator. Nil: there was none yet.
	restarted *restarted
	// orphan is a deleted Lolcow whose orphaned children the garbage collector must delete. Nil: there is none.
	orphan   *cow
	orphaned []types.UID
}

type herdKey struct{}

func herdOf(ctx context.Context) *herd { return ctx.Value(herdKey{}).(*herd) }

func openHerd(ctx context.Context, suite *check.Suite) (*herd, error) {
	owners, err := workload.Open(ctx, suite.Config, lolcows, suite.NodeExpected)
	if err != nil {
		return nil, err
	}
	h := &herd{Owners: owners, random: rand.New(rand.NewPCG(uint64(suite.Seed), 8))} //nolint:gosec // a seed must draw the same each time
	if h.ports, err = h.FreePorts(ctx, h.random); err != nil {
		return nil, err
	}
	for _, name := range allNamespaces {
		if err := h.Namespace(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := h.HoldPods(ctx, pendingNamespace); err != nil {
		return nil, err
	}
	for _, name := range []string{paddock, stable, corner} {
		if err := h.ForbidPods(ctx, name); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// cow is a Lolcow in the state that the checks want.
type cow struct {
	types.NamespacedName
	greeting string
	port     int32
	object   *unstructured.Unstructured // the state when the check last wrote it
}

// words are texts for the cows. A number is appended, so that no two cows have the same text.
var words = []string{
	"hay", "clover", "thistle", "barn", "bell", "meadow", "dung",
	"calf", "udder", "moo", "rain", "fence", "butter", "herd",
}

// drawGreeting draws a text that no operator can have expected. It fits into one line of the page.
func (h *herd) drawGreeting() string {
	pick := func() string { return words[h.random.IntN(len(words))] }
	return fmt.Sprintf("%s and %s %d", pick(), pick(), 100+h.random.IntN(900))
}

var cowNames = []string{"bella", "dora", "erna", "flora", "gerda", "heidi", "lotte", "olga", "resi", "vroni"}

// draw draws a cow that does not exist yet.
func (h *herd) draw(namespace string) *cow {
	h.names++
	name := fmt.Sprintf("%s-%d", cowNames[h.random.IntN(len(cowNames))], h.names)
	return &cow{
		NamespacedName: types.NamespacedName{Namespace: namespace, Name: name},
		greeting:       h.drawGreeting(),
		port:           h.ports.Draw(),
	}
}

// New returns the object of a cow.
func (c *cow) New() *unstructured.Unstructured {
	spec := map[string]any{"port": int64(c.port)}
	if c.greeting != "" {
		spec["greeting"] = c.greeting
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(c.Namespace)
	object.SetName(c.Name)
	return object
}

// cleanUp deletes the remains of a check, except what later checks need if the check has ended. It deletes children as
// well, including those without an owner.
func (h *herd) cleanUp(ctx context.Context) error {
	if h.checkRunning {
		h.first, h.failingCows, h.fortuneCow, h.unchangedCow, h.driftCows, h.restarted, h.foreigners =
			nil, nil, nil, nil, nil, nil, nil
		if h.occupation != nil {
			h.occupation.End()
			h.occupation = nil
		}
	}
	h.checkRunning = false
	kept := append(h.withPods(), h.driftCows...)
	for _, c := range []*cow{h.fortuneCow, h.unchangedCow} {
		if c != nil {
			kept = append(kept, c)
		}
	}
	if h.occupation != nil {
		kept = append(kept, h.occupation.cow)
	}
	if h.foreigners != nil {
		kept = append(kept, h.foreigners.cows()...)
	}
	if h.restarted != nil {
		kept = append(kept, h.restarted.changed...)
	}
	stays := func(name types.NamespacedName) bool {
		return slices.ContainsFunc(kept, func(c *cow) bool { return c.NamespacedName == name })
	}
	if err := h.Remove(ctx, stays, allNamespaces...); err != nil {
		return err
	}
	// In a namespace with a kept Lolcow, the children stay. The owners of other children are gone, or the next check of a
	// namespace without kept Lolcows finds them.
	emptied := slices.DeleteFunc(slices.Clone(allNamespaces), func(namespace string) bool {
		return slices.ContainsFunc(kept, func(c *cow) bool { return c.Namespace == namespace })
	})
	return h.RemoveChildren(ctx, func(name types.NamespacedName) bool {
		return h.orphan != nil && (name.Name == h.orphan.Name || strings.HasPrefix(name.Name, h.orphan.Name+"-"))
	}, emptied...)
}

// visit is a check of the herd. Its methods are the vocabulary of this lab's checks.
type visit struct {
	*check.Check
	ctx  context.Context
	t    *testing.T
	herd *herd
}

// assess makes a step of a feature.
func assess(step func(visit)) func(context.Context, *testing.T, *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		h := herdOf(ctx)
		h.checkRunning = true
		step(visit{Check: c, ctx: ctx, t: t, herd: h})
		h.checkRunning = false
	}
}

// create creates a cow.
func (v visit) create(c *cow) *cow {
	v.t.Helper()
	object, err := v.herd.Create(v.ctx, c.New())
	v.OK(v.t, "creating a Lolcow", err)
	c.object = object
	return c
}

// createInPaddock creates a cow where no Pod runs, and waits until its children are correct.
func (v visit) createInPaddock() *cow {
	v.t.Helper()
	c := v.create(v.herd.draw(paddock))
	v.asSpecified(c)
	return c
}

// patch changes a cow by a JSON merge patch of its spec.
func (v visit) patch(c *cow, patch string) {
	v.t.Helper()
	object, err := v.herd.Patch(v.ctx, c.NamespacedName, patch)
	v.OK(v.t, "changing a Lolcow", err)
	c.object = object
}

func (v visit) setGreeting(c *cow, greeting string) {
	v.t.Helper()
	c.greeting = greeting
	v.patch(c, fmt.Sprintf(`{"spec":{"greeting":%q}}`, greeting))
}

func (v visit) setPort(c *cow, port int32) {
	v.t.Helper()
	c.port = port
	v.patch(c, fmt.Sprintf(`{"spec":{"port":%d}}`, port))
}

func (v visit) remove(c *cow) {
	v.t.Helper()
	v.OK(v.t, "deleting a Lolcow", v.herd.Delete(v.ctx, c.NamespacedName))
}

// needsNode ends the run without a grade if no Pod can run.
func (v visit) needsNode() {
	v.t.Helper()
	exists, err := v.herd.AwaitNode(v.ctx)
	v.OK(v.t, "waiting for the node", err)
	if !exists {
		v.Prevented(v.t, workload.NoNode)
	}
}

const (
	// pagePatience is the time limit for an operator that has done its part, once the Pods run.
	pagePatience = 20 * time.Second
	// startPatience is how long the Pods may take to start. On a busy machine, and on kind, that takes much longer than
	// here.
	startPatience = time.Minute
)

// pagePoll is the interval between two requests for a page, because nothing reports its changes.
const pagePoll = 100 * time.Millisecond

// awaitPage requests the page of a cow until its content is as wanted. err is a *workload.ClosedError if no server
// answers.
func (v visit) awaitPage(expected string, c *cow, wanted func(text string, err error) (observed string, ok bool)) {
	v.t.Helper()
	began := time.Now()
	for wait := v.NewWait(pagePatience, 2*pagePatience); ; v.Pause(v.ctx, v.t, pagePoll) {
		if !v.herd.rolledOut(c) && time.Since(began) < startPatience {
			wait.Changed() // the page is final once its Pods run
		}
		text, err := v.herd.Page(v.ctx, c.port)
		if closed := (*workload.ClosedError)(nil); err != nil && !errors.As(err, &closed) {
			v.OK(v.t, "asking for the page", err)
		}
		observed, ok := wanted(text, err)
		if ok {
			return
		}
		if why := wait.Over(v.ctx); why != "" {
			v.Fail(v.t, expected, fmt.Sprintf("%s (%s)", observed, why))
		}
	}
}

// awaitGreeting waits until the page of a cow shows its greeting.
func (v visit) awaitGreeting(c *cow) {
	v.t.Helper()
	v.awaitPage(fmt.Sprintf("the page at node port %d says the greeting of %s: %s", c.port, c.Name, c.greeting),
		c, func(text string, err error) (string, bool) {
			if err != nil {
				return err.Error(), false
			}
			return fmt.Sprintf("it says: %s", speech(text)), strings.Contains(speech(text), c.greeting)
		})
}

// awaitOpen waits until a server answers at a port. On a busy machine a single request may get no answer in time.
func (v visit) awaitOpen(c *cow) {
	v.t.Helper()
	for wait := v.NewWait(pagePatience, 2*pagePatience); ; v.Pause(v.ctx, v.t, pagePoll) {
		listens, why, err := v.herd.Listens(v.ctx, c.port)
		v.OK(v.t, "asking whether the port is open", err)
		if listens {
			return
		}
		if over := wait.Over(v.ctx); over != "" {
			v.Fail(v.t, fmt.Sprintf("node port %d of %s is open", c.port, c.Name), fmt.Sprintf("%s (%s)", why, over))
		}
	}
}

// awaitClosed waits until no server answers at a port.
func (v visit) awaitClosed(port int32) {
	v.t.Helper()
	for wait := v.NewWait(pagePatience, 2*pagePatience); ; v.Pause(v.ctx, v.t, pagePoll) {
		listens, _, err := v.herd.Listens(v.ctx, port)
		v.OK(v.t, "asking whether the port is open", err)
		if !listens {
			return
		}
		if why := wait.Over(v.ctx); why != "" {
			v.Fail(v.t, fmt.Sprintf("no server answers at node port %d any longer", port),
				fmt.Sprintf("it is still open (%s)", why))
		}
	}
}

// speech returns what the cow says on a page of plain text: the content of the bubble.
func speech(page string) string {
	var lines []string
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if inner, ok := strings.CutPrefix(line, "| "); ok && strings.HasSuffix(inner, " |") &&
			len(lines) < strings.Count(page, "\n") && !strings.Contains(inner, "##") {
			lines = append(lines, strings.TrimSpace(strings.TrimSuffix(inner, "|")))
			continue
		}
		if len(lines) > 0 {
			break
		}
	}
	if len(lines) == 0 {
		return strings.TrimSpace(page[:min(len(page), 200)]) // not our server's page: a greeting may be anywhere
	}
	return strings.Join(lines, " ")
}

// prepare creates the Lolcows with pages and Pods, if a Pod can run. After the first page was seen, it continues as
// soon as possible: with the next greeting of that page, with a Lolcow without a greeting, and with the failures of
// failingCows. All of this takes time, in which other checks run that do not count the operator's requests.
func (v visit) prepare() {
	v.t.Helper()
	h := v.herd
	v.deleteForeign()
	if h.first != nil && h.first.shown {
		v.changeGreeting()
		v.fortuneCow()
		v.makeFail()
	}
	if h.first != nil || !h.RunsPods() {
		return
	}
	h.first = &pageCow{cow: v.create(h.draw(meadow))}
	tricky := h.draw(sickbay)
	tricky.greeting = h.drawTricky()
	h.failingCows = &failingCows{image: v.create(tricky), crash: v.create(h.draw(ward))}
}

// served returns the first Lolcow of the herd, whose page is served.
func (v visit) served() *cow {
	v.t.Helper()
	v.needsNode()
	v.prepare()
	if first := v.herd.first; !first.shown {
		v.asSpecified(first.cow)
		v.awaitGreeting(first.cow)
		first.shown = true
	}
	return v.herd.first.cow
}

// pageCow is a Lolcow whose page is checked.
type pageCow struct {
	*cow
	// shown means that the page was seen, and greetingChanged that the Lolcow has got another greeting since.
	shown, greetingChanged bool
}

// failingCows are two Lolcows whose Pods will fail. The greeting of image contains special characters.
type failingCows struct {
	image, crash *cow
	// failing means that the Pods of both fail.
	failing bool
}

// withPods returns the Lolcows whose Pods run, or will run.
func (h *herd) withPods() (all []*cow) {
	if h.first != nil {
		all = append(all, h.first.cow)
	}
	if h.failingCows != nil {
		all = append(all, h.failingCows.image, h.failingCows.crash)
	}
	return all
}
