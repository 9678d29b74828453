// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
)

// These are the namespaces of the checks.
const (
	street  = "webapp-street"  // Pods run here
	plans   = "webapp-plans"   // a quota forbids all Pods
	suburb  = "webapp-suburb"  // a quota forbids all Pods here, too
	waiting = "webapp-waiting" // Pods are created, and never start
	yard    = "webapp-yard"    // a quota forbids all Deployments, until it is raised
)

var everywhere = []string{street, plans, suburb, waiting, yard}

// quotaName is the name of the quota that forbids Deployments in the yard. The API server's error contains it.
const quotaName = "no-deployments"

// serverImage is a web server of the course. It listens on 8080.
const serverImage = "operator-labs/lolcow:v1"

// serverPort is the port at which the image of every WebApp listens.
const serverPort = 8080

// town holds all WebApps of the run.
type town struct {
	*workload.Owners
	random *rand.Rand
	ports  *workload.Ports
	// resources are the resources of the API group, as discovery lists them. Without WebApps there is nothing to watch,
	// and Owners is nil.
	resources []metav1.APIResource
	names     int
	// first is a WebApp with a running Pod, and occupation is one whose port is taken. They are created before the first
	// check, because they need time, and stay until they have been checked. Nil: there is none.
	first      *app
	occupation *occupation
	// raised is a WebApp whose Deployment a quota forbade. The quota has been raised since.
	raised *app
	// storedApps are WebApps from before the upgrade, and upgraded means that the upgrade has started: from then on each
	// version has to be converted.
	storedApps []storedApp
	upgraded   bool
}

// occupation is a WebApp whose node port is taken by another Service for a while.
type occupation struct {
	*workload.Occupation
	*app

	// versions holds the versions of the WebApp and of its Deployment, and since when they have not changed. labelled is
	// the WebApp when it got a label after that, and asked is a mark from before the label. changed describes Degraded
	// after the operator's next try.
	versions string
	since    time.Time
	labelled *unstructured.Unstructured
	asked    audit.Mark
	changed  string
}

type townKey struct{}

func townOf(ctx context.Context) *town { return ctx.Value(townKey{}).(*town) }

// openTown creates the namespaces, and the WebApps that need time.
func openTown(ctx context.Context, suite *check.Suite) (*town, error) {
	t := &town{random: rand.New(rand.NewPCG(uint64(suite.Seed), 9))} //nolint:gosec // a seed must draw the same each time
	client, err := discovery.NewDiscoveryClientForConfig(suite.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	list, err := client.ServerResourcesForGroupVersion(webapps.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("asking what the API server serves: %w", err)
	}
	if list != nil {
		t.resources = list.APIResources
	}
	if !t.serves(webapps.Resource) {
		return t, nil // The first check reports that.
	}
	if t.Owners, err = workload.Open(ctx, suite.Config, webapps, suite.NodeExpected); err != nil {
		return nil, err
	}
	if t.ports, err = t.FreePorts(ctx, t.random); err != nil {
		return nil, err
	}
	for _, name := range everywhere {
		if err := t.Namespace(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(t.ForbidPods(ctx, plans),
		t.ForbidPods(ctx, suburb), t.HoldPods(ctx, waiting), t.ForbidPods(ctx, yard),
		t.Limit(ctx, yard, quotaName, workload.DeploymentCount, "0")); err != nil {
		return nil, err
	}
	// The checks report their results.
	if t.RunsPods() {
		first := t.draw(street)
		first.image = serverImage
		if first.object, err = t.Create(ctx, first.New()); err == nil {
			t.first = first
		}
	}
	t.occupation, _ = t.occupy(ctx, suite)
	return t, nil
}

func (t *town) serves(resource string) bool {
	return slices.ContainsFunc(t.resources, func(r metav1.APIResource) bool { return r.Name == resource })
}

func (t *town) lag() time.Duration {
	if t.Owners == nil {
		return 0
	}
	return t.Lag()
}

// occupy creates a WebApp whose node port another Service has.
func (t *town) occupy(ctx context.Context, suite *check.Suite) (s *occupation, err error) {
	s = &occupation{app: t.draw(suburb)}
	taken := []workload.Wanted{
		{Of: degradedType, Status: "True", Mentions: []string{fmt.Sprint(s.port)}}, {Of: availableType, Status: "False"},
	}
	look := func(ctx context.Context, _ *workload.Occupation) (bool, error) { return t.tryAgain(ctx, suite, s) }
	if s.Occupation, err = t.Occupy(ctx, suite, s.New(), s.port, taken, look); err != nil {
		return nil, err
	}
	s.object = s.Owner
	return s, nil
}

const (
	// stillFor is how long nothing has happened to a reported WebApp before it gets a label: a message that contains a
	// time differs by then.
	stillFor = 1500 * time.Millisecond
	// afterTry is how long an operator may take to write the status after its next try. A starved one needs most of it.
	afterTry = time.Second
)

// tryAgain labels a WebApp that the operator has reported some seconds ago, and records its status after the next try.
// The label triggers most operators, and others retry by themselves.
func (t *town) tryAgain(ctx context.Context, suite *check.Suite, s *occupation) (all bool, err error) {
	if s.labelled == nil {
		deployment, exists := workload.Named[appsv1.Deployment](t.Owners, workload.Deployments, s.NamespacedName)
		object, ownerExists := t.Get(s.NamespacedName)
		if !exists || !ownerExists || !workload.Forbidden(&deployment) {
			return false, nil // the status may still change
		}
		if still := deployment.ResourceVersion + " " + object.GetResourceVersion(); still != s.versions {
			s.versions, s.since = still, time.Now()
		}
		if time.Since(s.since) < stillFor {
			return false, nil
		}
		s.asked = suite.Audit.Now()
		s.labelled, err = t.Patch(ctx, s.NamespacedName, `{"metadata":{"labels":{"street":"main"}}}`)
		return false, err
	}
	tries := suite.Audit.Since(s.asked, suite.ByOperator().And(audit.On("", "services"), audit.Writes,
		func(e audit.Event) bool {
			return e.Namespace == s.Namespace && e.Name == s.Name && e.Code == http.StatusUnprocessableEntity
		}))
	before, _ := workload.ConditionOf(s.labelled, degradedType)
	if now, exists := t.Get(s.NamespacedName); exists && workload.Newer(now, s.labelled) {
		is, _ := workload.ConditionOf(now, degradedType)
		if is != before {
			s.changed = fmt.Sprintf("its message was %q, and when the operator had tried again it was %q",
				before.Message, is.Message)
			return true, nil
		}
		if !reflect.DeepEqual(now.Object["status"], s.labelled.Object["status"]) {
			s.changed = fmt.Sprintf("the status was %v, and when the operator had tried again it was %v",
				s.labelled.Object["status"], now.Object["status"])
			return true, nil
		}
	}
	return len(tries) > 0 && time.Since(tries[0].Time) >= afterTry, nil
}

// app is a WebApp in the state that the checks want.
type app struct {
	types.NamespacedName
	image    string
	port     int32
	replicas int32
	silent   bool                       // replicas are not set, and are therefore 1
	before   []string                   // its earlier images
	object   *unstructured.Unstructured // the state when the check last wrote it
}

func (a *app) generation() int64 { return a.object.GetGeneration() }

var shops = []string{"bakery", "cinema", "florist", "garage", "library", "museum", "office", "school", "tavern"}

// draw draws a WebApp that does not exist yet.
func (t *town) draw(namespace string) *app {
	t.names++
	name := fmt.Sprintf("%s-%d", shops[t.random.IntN(len(shops))], t.names)
	return &app{
		NamespacedName: types.NamespacedName{Namespace: namespace, Name: name},
		image:          t.drawImage(),
		port:           t.ports.Draw(),
		replicas:       1,
	}
}

// drawImage draws an image that no operator can have expected, and that does not exist.
func (t *town) drawImage() string {
	return fmt.Sprintf("registry.example.com/%s/front:v%d", shops[t.random.IntN(len(shops))], 100+t.random.IntN(900))
}

// New returns the object of a WebApp.
func (a *app) New() *unstructured.Unstructured { return a.in(webapps) }

// portField returns the name of the port's field in a version.
func portField(version schema.GroupVersionResource) string {
	if version == newer {
		return "port"
	}
	return "nodePortNumber"
}

// in returns the object of a WebApp in a version.
func (a *app) in(version schema.GroupVersionResource) *unstructured.Unstructured {
	spec := map[string]any{"image": a.image, portField(version): int64(a.port)}
	if !a.silent {
		spec["replicas"] = int64(a.replicas)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(version.GroupVersion().WithKind(kind.Kind))
	object.SetNamespace(a.Namespace)
	object.SetName(a.Name)
	return object
}

// kept reports whether an object belongs to a WebApp that later checks need.
func (t *town) kept(name types.NamespacedName) bool {
	return t.first != nil && name == t.first.NamespacedName ||
		t.occupation != nil && (name == t.occupation.NamespacedName || name == t.occupation.Squatter) ||
		t.raised != nil && name == t.raised.NamespacedName
}

// cleanUp deletes the remains of a check, except what later checks need.
func (t *town) cleanUp(ctx context.Context) error {
	// After the upgrade, the submission's conversion determines what can be read and therefore deleted. No check of the
	// lab itself follows then.
	if t.Owners == nil || t.upgraded {
		return nil
	}
	return t.Wipe(ctx, t.kept, everywhere...)
}

// visit is a check in the town. Its methods are the vocabulary of this lab's checks.
type visit struct {
	*check.Check
	ctx  context.Context
	t    *testing.T
	town *town
}

// assess makes a step of a feature.
func assess(step func(visit)) func(context.Context, *testing.T, *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		step(visit{Check: c, ctx: ctx, t: t, town: townOf(ctx)})
	}
}

// create creates a WebApp.
func (v visit) create(a *app) *app {
	v.t.Helper()
	object, err := v.town.Create(v.ctx, a.New())
	v.OK(v.t, "creating a WebApp", err)
	a.object = object
	return a
}

// planned creates a WebApp where Pods are forbidden, and waits until its children are correct.
func (v visit) planned() *app {
	v.t.Helper()
	a := v.create(v.town.draw(plans))
	v.asSpecified(a)
	return a
}

// set changes a WebApp to the state that we want, by one patch.
func (v visit) set(a *app) {
	v.t.Helper()
	a.silent = false
	spec, err := json.Marshal(map[string]any{"spec": a.New().Object["spec"]})
	v.OK(v.t, "writing a patch", err)
	object, err := v.town.Patch(v.ctx, a.NamespacedName, string(spec))
	v.OK(v.t, "changing a WebApp", err)
	a.object = object
}

func (v visit) setImage(a *app, image string) {
	v.t.Helper()
	a.before, a.image = append(a.before, a.image), image
	v.set(a)
}

func (v visit) setPort(a *app, port int32) {
	v.t.Helper()
	a.port = port
	v.set(a)
}

func (v visit) setReplicas(a *app, replicas int32) {
	v.t.Helper()
	a.replicas = replicas
	v.set(a)
}

// gonePatience is how long a deleted WebApp may take to disappear.
const gonePatience = 10 * time.Second

// remove deletes a WebApp, and waits until it is removed.
func (v visit) remove(a *app) {
	v.t.Helper()
	v.OK(v.t, "deleting a WebApp", v.town.Delete(v.ctx, a.NamespacedName))
	v.EventuallyWithin(v.ctx, v.t, a.Name+", which was deleted, disappears", gonePatience, v.town.Changed,
		func() (string, bool) {
			_, exists := v.town.Get(a.NamespacedName)
			return "it is still there", !exists
		})
}

// statusPatience is how long an operator may be silent until a condition is correct.
const statusPatience = 5 * time.Second

// podPatience is statusPatience for conditions that depend on Kubernetes' own controllers, which take time on a busy
// machine.
const podPatience = 20 * time.Second

// These are the types of conditions.
const (
	availableType = "Available"
	degradedType  = "Degraded"
)

// conditions waits until conditions of a WebApp are as wanted, for its current generation.
func (v visit) conditions(a *app, why string, all ...workload.Wanted) {
	v.t.Helper()
	v.conditionsWithin(a, why, statusPatience, all...)
}

func (v visit) conditionsWithin(a *app, why string, patience time.Duration, all ...workload.Wanted) {
	v.t.Helper()
	var phrases []string
	for _, w := range all {
		phrases = append(phrases, w.String())
	}
	v.EventuallyWithin(v.ctx, v.t, fmt.Sprintf("%s: of %s %s", why, a.Name, strings.Join(phrases, ", and ")),
		patience, v.town.Changed, func() (string, bool) {
			unlike := v.town.Unlike(a.NamespacedName, a.generation(), all)
			return unlike, unlike == ""
		})
}
