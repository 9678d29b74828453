// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package create creates a usable cluster, step by step.
package create

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/addons"
	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/engine"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/clusters/smoke"
	"lva.io/operators/scripts/cmd/cluster/internal/environment"
	"lva.io/operators/scripts/cmd/cluster/internal/steps"
)

// These are the sources of images.
const (
	Auto     = "auto"     // from a registry if it answers, otherwise built here
	Registry = "registry" // from the registries of their publishers
	AirGap   = "air-gap"  // all images are built here
)

// Sources are the places that images may come from.
var Sources = []string{Auto, Registry, AirGap}

const (
	// StepTime is the time limit of a step that keeps only the cluster busy. On two busy cores the longest step took a
	// fifth of it.
	StepTime = 5 * time.Minute
	// PreflightTime is the time limit for requests that Docker answers at once if it works.
	PreflightTime = time.Minute
)

// Options configure the cluster.
type Options struct {
	// Profile is one of kind.Profiles.
	Profile string
	// Images is one of Sources.
	Images string
	// Addons are installed besides Cilium and cert-manager: names of package known.
	Addons []string
	// Recreate deletes an existing cluster first.
	Recreate bool
	// StepTime is the time limit of a step, once images are present. Add-ons have their own limits, unless this differs
	// from the constant StepTime.
	StepTime time.Duration
}

// creation is a cluster that is being created.
type creation struct {
	*environment.Environment
	options Options
	profile *kind.Profile

	found  *kind.Found
	marker kind.Marker // of the existing cluster, or of the one to create
	// node and others are images of the store. node is set only for an air gap. others always has the images of the
	// course.
	node   images.Built
	others []images.Built
	target addons.Target
}

// Cluster creates a kind cluster, or continues where an earlier run ended, and prints how to use it.
func Cluster(ctx context.Context, env *environment.Environment, options Options) error {
	profile, err := kind.LoadProfile(options.Profile)
	if err != nil {
		return err
	}
	unlock, err := env.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c := &creation{Environment: env, options: options, profile: profile}
	began := time.Now()
	if err := c.Steps.Run(ctx, c.plan(ctx)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "The cluster %s is ready after %.1f s. To use it:\n",
		c.Cluster.Name, time.Since(began).Seconds())
	fmt.Printf("export KUBECONFIG=%s\n", c.Cluster.Kubeconfig())
	return nil
}

// plan returns the steps. Each step first checks what exists already, which makes the plan idempotent.
func (c *creation) plan(ctx context.Context) []steps.Step {
	limit := c.options.StepTime
	// Add-ons have time limits of their own, which are longer if images come from a registry.
	addonLimit := limit
	if limit == StepTime {
		addonLimit = 0
	}
	var plan []steps.Step
	if engine.Needed(ctx) {
		plan = append(plan, steps.Step{Name: "engine", Do: c.startEngine})
	}
	plan = append(plan, steps.Step{Name: "preflight", Limit: PreflightTime, Do: c.preflight})
	if c.options.Recreate {
		plan = append(plan, steps.Step{Name: "delete", Limit: limit, Do: c.remove})
	}
	plan = append(plan,
		steps.Step{Name: "start", Limit: limit, Do: c.start},
		steps.Step{Name: "images", Do: c.buildImages},
		steps.Step{Name: "node image", Do: c.nodeImage},
		steps.Step{Name: "create", Limit: limit, Do: c.create},
		steps.Step{Name: "load", Limit: limit, Do: c.load},
		steps.Step{Name: "Cilium", Limit: addonLimit, Do: c.install(addons.Cilium(c.Store), "kube-system")},
		steps.Step{Name: "nodes Ready", Limit: limit, Do: c.nodesReady},
		steps.Step{Name: "cert-manager", Limit: addonLimit, Do: c.install(addons.CertManager(c.Store), "cert-manager")},
	)
	for _, addon := range moreAddons(c.Store, c.options.Addons) {
		plan = append(plan, steps.Step{Name: addon.Name(), Limit: addonLimit, Do: c.install(addon, addon.Name())})
	}
	return append(plan,
		steps.Step{Name: "smoke test", Limit: limit, Do: c.smokeTest},
		steps.Step{Name: "kubeconfig", Limit: limit, Do: c.kubeconfig},
	)
}

// moreAddons returns the add-ons with these names, without the one that every cluster gets. The names are valid.
func moreAddons(store *images.Store, names []string) (more []addons.Addon) {
	for _, name := range names {
		if addon, err := addons.Named(store, name); err == nil && name != known.CertManager {
			more = append(more, addon)
		}
	}
	return more
}

// startEngine starts Docker's engine if it does not run and we may start it: on Debian, as root.
func (c *creation) startEngine(ctx context.Context, report func(string)) (string, error) {
	return engine.Start(ctx, c.Root, report)
}

// preflight finds out what exists, where images come from, and what would prevent a cluster. It reports all problems,
// not only the first one.
func (c *creation) preflight(ctx context.Context, report func(string)) (string, error) {
	report("asking Docker")
	var err error
	exists := false
	facts := kind.Measure(ctx, c.profile, true)
	if !facts.Missing && facts.Unreachable == "" {
		if c.found, err = c.Cluster.Find(ctx); err != nil {
			return "", err
		}
		exists = (c.found.State == kind.Made || c.found.State == kind.Stopped || c.found.State == kind.Silent) &&
			!c.options.Recreate
		if len(c.found.Nodes) == 0 {
			facts = kind.Measure(ctx, c.profile, false)
		}
	}
	var fatal []string
	for _, problem := range facts.Problems(c.profile, c.found != nil && len(c.found.Nodes) > 0) {
		if problem.Fatal {
			fatal = append(fatal, problem.String())
		} else {
			c.Steps.Note(problem.String())
		}
	}
	if len(fatal) == 1 {
		return "", errors.New(fatal[0])
	}
	if len(fatal) > 1 {
		return "", fmt.Errorf("%d problems must be fixed first:\n  - %s", len(fatal), strings.Join(fatal, "\n  - "))
	}
	if c.found.State == kind.Foreign {
		return "", fmt.Errorf("the cluster %s exists, and this command did not create it: "+
			"choose another --name, or delete that one (`cluster delete --name %s --force`)", c.Cluster.Name, c.Cluster.Name)
	}
	detail := "Docker " + facts.Version
	switch {
	case !exists:
		report("asking the registries")
		err := c.chooseImages(ctx)
		return detail + ", images from " + Source(c.marker.Images), err
	case c.found.State == kind.Made:
		c.marker = c.found.Marker
		return detail + ", the cluster exists", c.check()
	default:
		return detail + ", the cluster exists and must be started", nil
	}
}

// check compares an existing cluster with the options. It never changes the cluster.
func (c *creation) check() error {
	if c.marker.Profile != c.profile.Name {
		return fmt.Errorf("the cluster %s was created with the profile %s: --recreate creates it again with %s, "+
			"and --name creates another one",
			c.Cluster.Name, c.marker.Profile, c.profile.Name)
	}
	if len(c.found.Nodes) != c.profile.Nodes() && c.marker.Hash == c.profile.Hash {
		return fmt.Errorf("%s of the cluster %s exist, and %d are expected: --recreate creates it again",
			english.Plural(len(c.found.Nodes), "node", ""), c.Cluster.Name, c.profile.Nodes())
	}
	if c.options.Images != Auto && c.options.Images != c.marker.Images {
		return fmt.Errorf("the cluster %s was created with images from %s: --recreate creates it again",
			c.Cluster.Name, Source(c.marker.Images))
	}
	if c.marker.Hash != c.profile.Hash {
		c.Steps.Note(fmt.Sprintf("the profile %s or the audit policy was edited after the cluster was created: "+
			"--recreate creates it with the current ones", c.profile.Name))
	}
	return nil
}

// chooseImages decides where images come from.
func (c *creation) chooseImages(ctx context.Context) error {
	switch c.options.Images {
	case Auto:
		c.marker.Images = Registry
		if err := kind.RegistriesAnswer(ctx); err != nil {
			c.marker.Images = AirGap
			c.Steps.Note(fmt.Sprintf(
				"no registry answers (%v): all images are built here; use --images registry to require one", err,
			))
		}
	default:
		c.marker.Images = c.options.Images
	}
	if c.marker.Images == AirGap && c.profile.ControlPlanes() > 1 {
		return fmt.Errorf("the profile %s has %d control planes: the load balancer that kind puts before them is Envoy, "+
			"which can't be built here; take one control plane, or images from a registry",
			c.profile.Name, c.profile.ControlPlanes())
	}
	return nil
}

// Source describes in words where images come from.
func Source(images string) string {
	if images == AirGap {
		return "this checkout (air gap)"
	}
	return "a registry"
}

func (c *creation) remove(ctx context.Context, _ func(string)) (string, error) {
	was, err := c.Cluster.Delete(ctx)
	c.found = &kind.Found{}
	if !was {
		return "no cluster existed", err
	}
	return "deleted the old one", err
}

// start makes an existing cluster that does not answer reachable. Only then can start read the options that the cluster
// was created with.
func (c *creation) start(ctx context.Context, report func(string)) (string, error) {
	detail := "its API server answers again"
	switch c.found.State {
	case kind.Stopped:
		report("starting its nodes")
		if err := c.Cluster.Start(ctx, c.found.Nodes); err != nil {
			return "", err
		}
		detail = "its nodes were started again"
	case kind.Silent:
		report("waiting for its API server")
		if err := c.Cluster.WaitReady(ctx); err != nil {
			return "", fmt.Errorf("%w\n--recreate creates a new cluster", err)
		}
	default:
		return "", steps.ErrNothing
	}
	if err := c.findMade(ctx); err != nil {
		return "", err
	}
	return detail, c.check()
}

// buildImages ensures that the store has all images that will be loaded. It runs first, so that no cluster waits for
// the images.
func (c *creation) buildImages(ctx context.Context, report func(string)) (string, error) {
	catalogue, err := images.Load()
	if err != nil {
		return "", err
	}
	wanted := catalogue.Set("course")
	for _, addon := range moreAddons(c.Store, c.options.Addons) {
		wanted = append(wanted, catalogue.Set(addon.Name())...)
	}
	if c.marker.Images == AirGap {
		wanted = slices.Concat(catalogue.Set("node"), catalogue.Set("cilium"), catalogue.Set("cert-manager"), wanted)
	}
	built, err := c.Build(ctx, wanted, report)
	if err != nil {
		return "", err
	}
	var total int64
	for _, image := range built {
		total += image.Size
	}
	if c.marker.Images == AirGap {
		c.node, built = built[0], built[1:]
	}
	c.others = built
	return fmt.Sprintf("%s, %s", english.Plural(len(wanted), "image", ""), environment.Megabytes(total)), nil
}

func (c *creation) nodeImage(ctx context.Context, report func(string)) (string, error) {
	if c.found.State == kind.Made {
		return "not needed: the nodes exist", nil
	}
	if c.marker.Images == AirGap {
		c.marker.NodeImage = c.node.Reference
		loaded, err := kind.EnsureNodeImage(ctx, c.Store, c.node, func(done, total int64) {
			report(fmt.Sprintf("loaded into Docker: %s of %s", environment.Megabytes(done), environment.Megabytes(total)))
		})
		return c.node.Reference + happened(loaded, ", loaded into Docker", ", Docker has it"), err
	}
	c.marker.NodeImage = kind.NodeImage
	if image := c.profile.Image(); image != "" {
		c.marker.NodeImage = image
	}
	report("downloading " + c.marker.NodeImage)
	pulled, err := kind.Pull(ctx, c.marker.NodeImage)
	name, _, _ := strings.Cut(c.marker.NodeImage, "@")
	return name + happened(pulled, ", downloaded", ", Docker has it"), err
}

// create creates the cluster, unless it exists.
func (c *creation) create(ctx context.Context, report func(string)) (string, error) {
	detail := "it exists since " + c.marker.Created.Local().Format("2 Jan 15:04")
	if c.found.State != kind.Made {
		detail = english.Plural(c.profile.Nodes(), "node", "")
		if c.found.State == kind.Unfinished {
			report("removing the incomplete cluster of an earlier run")
			if err := c.Cluster.Remove(ctx); err != nil {
				return "", err
			}
			detail += ", after an incomplete one was removed"
		}
		if err := c.Cluster.Make(ctx, c.profile, c.marker, report); err != nil {
			return "", err
		}
		if err := c.findMade(ctx); err != nil {
			return "", err
		}
	}
	return detail, c.reach()
}

// findMade looks up a cluster that must exist now.
func (c *creation) findMade(ctx context.Context) (err error) {
	if c.found, err = c.Cluster.Find(ctx); err != nil {
		return err
	}
	if c.found.State != kind.Made {
		return fmt.Errorf(
			"the cluster %s differs from what this command creates: --recreate creates a new one", c.Cluster.Name,
		)
	}
	c.marker = c.found.Marker
	return nil
}

// reach sets the target for add-ons.
func (c *creation) reach() error {
	config, err := c.Cluster.Config()
	if err != nil {
		return err
	}
	c.target = TargetOf(c.Cluster, config, c.profile, c.marker)
	return nil
}

func (c *creation) load(ctx context.Context, report func(string)) (string, error) {
	loaded, err := c.Cluster.Load(ctx, c.Store, c.others, func(done int64) {
		report(environment.Megabytes(done) + " into all nodes together")
	})
	if err != nil {
		return "", err
	}
	if loaded == 0 {
		return "the nodes have all images", nil
	}
	return english.Plural(loaded, "image", "") + " into " + english.Plural(len(c.found.Nodes), "node", ""), nil
}

func (c *creation) install(addon addons.Addon, namespace string) func(context.Context, func(string)) (string, error) {
	return func(ctx context.Context, report func(string)) (string, error) {
		if err := addon.Install(ctx, c.target, report); err != nil {
			return "", explained(ctx, err, c.target, namespace)
		}
		state, err := addon.State(ctx, c.target)
		return Described(state), err
	}
}

func (c *creation) nodesReady(ctx context.Context, report func(string)) (string, error) {
	if err := kind.WaitNodes(ctx, c.target.Config, len(c.found.Nodes), report); err != nil {
		return "", explained(ctx, fmt.Errorf("%w%s", err, c.Cluster.Explain(ctx)), c.target, "kube-system")
	}
	return english.Plural(len(c.found.Nodes), "node", ""), nil
}

// smokeTest tests each set of versions once. A second run changes nothing.
func (c *creation) smokeTest(ctx context.Context, report func(string)) (string, error) {
	client, err := kubernetes.NewForConfig(c.target.Config)
	if err != nil {
		return "", fmt.Errorf("creating a client: %w", err)
	}
	tested, err := c.tested(ctx)
	if err != nil {
		return "", err
	}
	if tested == c.marker.Tested {
		report("looking at the cluster's DNS")
		if err := smoke.WaitDNS(ctx, client); err != nil {
			return "", explained(ctx, err, c.target, "kube-system")
		}
		return "passed before, with the same versions", nil
	}
	if err := smoke.Test(ctx, client, report); err != nil {
		return "", explained(ctx, err, c.target, smoke.Namespace)
	}
	c.marker.Tested = tested
	return "a Pod reached one on another node by its Service's name", c.Cluster.Mark(ctx, c.marker)
}

// tested returns the versions that the smoke test covers.
func (c *creation) tested(ctx context.Context) (string, error) {
	words := []string{c.marker.NodeImage}
	for _, addon := range []addons.Addon{addons.Cilium(c.Store), addons.CertManager(c.Store)} {
		state, err := addon.State(ctx, c.target)
		if err != nil {
			return "", err
		}
		words = append(words, addon.Name()+" "+state.Installed)
	}
	return strings.Join(words, ", "), nil
}

func (c *creation) kubeconfig(context.Context, func(string)) (string, error) {
	changed, err := c.Cluster.WriteKubeconfig()
	return c.Cluster.Kubeconfig() + happened(changed, ", written", ""), err
}

func happened(did bool, yes, no string) string {
	if did {
		return yes
	}
	return no
}

// TargetOf describes a kind cluster as a target for add-ons.
func TargetOf(cluster *kind.Cluster, config *rest.Config, profile *kind.Profile, marker kind.Marker) addons.Target {
	return addons.Target{
		Config: config, Kubeconfig: cluster.Kubeconfig(), AirGap: marker.Images == AirGap, Pods: true,
		APIHost: cluster.APIHost(profile.ControlPlanes()), APIPort: kind.APIPort,
	}
}

// Described returns the state of an add-on in words.
func Described(state addons.State) string {
	return strings.TrimSuffix(state.Installed+", "+state.Detail, ", ")
}
