// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/addons"
	"lva.io/operators/clusters/docker"
	"lva.io/operators/clusters/engine"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/kind"
	"lva.io/operators/scripts/cli"
)

// Where images come from.
const (
	imagesAuto     = "auto"
	imagesRegistry = "registry"
	imagesAirGap   = "air-gap"
)

const (
	// stepTime is how long a step may take that only the cluster is busy with. On two busy cores the longest took a fifth of it.
	stepTime = 5 * time.Minute
	// explainTime is how long it may take to find out why something took too long.
	explainTime = 15 * time.Second
	// preflightTime is for questions that Docker answers at once, if it does.
	preflightTime = time.Minute
)

type createFlags struct {
	name, profile, images, context string
	airGap, recreate               bool
	stepTime                       time.Duration
}

func createCommand() *cobra.Command {
	flags := &createFlags{}
	command := &cobra.Command{
		Use: "create", Short: "Make a cluster with Cilium and cert-manager, or go on where an earlier run ended", Args: cli.NoArguments,
		Long: "create makes a cluster of kind, installs Cilium and cert-manager, and waits until both are usable. Run again after any\n" +
			"failure, or kill -9, it goes on; run again after a success, it looks whether all is well and changes nothing.\n" +
			"With --context it installs cert-manager on a cluster that exists, and touches nothing that it did not make.",
		RunE: func(command *cobra.Command, _ []string) error {
			if flags.airGap {
				if command.Flags().Changed("images") && flags.images != imagesAirGap {
					return fmt.Errorf("--air-gap and --images %s contradict each other: give one of them", flags.images)
				}
				flags.images = imagesAirGap
			}
			if !slices.Contains([]string{imagesAuto, imagesRegistry, imagesAirGap}, flags.images) {
				return fmt.Errorf("--images %s: choose one of %s, %s, %s", flags.images, imagesAuto, imagesRegistry, imagesAirGap)
			}
			if flags.stepTime <= 0 {
				return fmt.Errorf("--step-time %s: a step needs some time", flags.stepTime)
			}
			if flags.context != "" {
				for _, other := range []string{"name", "profile", "recreate"} {
					if command.Flags().Changed(other) {
						return fmt.Errorf("--context and --%s contradict each other: a cluster that exists has its name and its nodes", other)
					}
				}
				return onContext(command.Context(), flags)
			}
			return create(command.Context(), flags)
		},
	}
	nameFlag(command, &flags.name)
	command.Flags().StringVar(&flags.profile, "profile", "student", "which cluster: "+strings.Join(kind.Profiles(), ", ")+" (clusters/config/kind)")
	command.Flags().StringVar(&flags.images, "images", imagesAuto, "where images come from: registry, air-gap (built here), or auto: registry if it answers")
	command.Flags().BoolVar(&flags.airGap, "air-gap", false, "the same as --images air-gap: build all images from Go modules and Debian packages")
	command.Flags().BoolVar(&flags.recreate, "recreate", false, "delete the cluster first, if there is one")
	command.Flags().StringVar(&flags.context, "context", "", "install on the cluster of this context of your kubeconfig instead")
	command.Flags().DurationVar(&flags.stepTime, "step-time", stepTime, "how long a step may take, once images are there")
	return command
}

// creation is a cluster on its way.
type creation struct {
	*place
	flags   *createFlags
	profile *kind.Profile

	found  *kind.Found
	marker kind.Marker // as it is, or is to be
	// node and others are the images of the store, for an air gap; course is there in any case.
	node   images.Built
	others []images.Built
	target addons.Target
}

func create(ctx context.Context, flags *createFlags) error {
	here, err := find(flags.name)
	if err != nil {
		return err
	}
	profile, err := kind.LoadProfile(flags.profile)
	if err != nil {
		return err
	}
	unlock, err := here.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c := &creation{place: here, flags: flags, profile: profile}
	began := time.Now()
	if err := c.steps.run(ctx, c.plan(ctx)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "The cluster %s is ready after %.1f s. To use it:\n", c.cluster.Name, time.Since(began).Seconds())
	fmt.Printf("export KUBECONFIG=%s\n", c.cluster.Kubeconfig())
	return nil
}

// plan is the recipe. Each step looks what is there already; that is what makes it idempotent.
func (c *creation) plan(ctx context.Context) []step {
	limit := c.flags.stepTime
	// Add-ons know by themselves how long they need, and longer where a registry is asked.
	addonLimit := limit
	if limit == stepTime {
		addonLimit = 0
	}
	var plan []step
	if engine.Needed(ctx) {
		plan = append(plan, step{"engine", 0, c.startEngine})
	}
	plan = append(plan, step{"preflight", preflightTime, c.preflight})
	if c.flags.recreate {
		plan = append(plan, step{"delete", limit, c.remove})
	}
	return append(plan,
		step{"start", limit, c.start},
		step{"images", 0, c.buildImages},
		step{"node image", 0, c.nodeImage},
		step{"create", limit, c.create},
		step{"load", limit, c.load},
		step{"Cilium", addonLimit, c.install(addons.Cilium(c.store), "kube-system")},
		step{"nodes Ready", limit, c.nodesReady},
		step{"cert-manager", addonLimit, c.install(addons.CertManager(c.store), "cert-manager")},
		step{"smoke test", limit, c.smokeTest},
		step{"kubeconfig", limit, c.kubeconfig},
	)
}

// startEngine starts Docker's engine where it does not run and we may: on Debian, as root.
func (c *creation) startEngine(ctx context.Context, say func(string)) (string, error) {
	return engine.Start(ctx, c.root, say)
}

// preflight finds out what there is, where images come from, and what would keep us from a cluster. It says all troubles, and
// not only the first.
func (c *creation) preflight(ctx context.Context, say func(string)) (string, error) {
	say("asking Docker")
	var err error
	there := false
	facts := kind.Measure(ctx, c.profile, true)
	if !facts.Missing && facts.Unreachable == "" {
		if c.found, err = c.cluster.Find(ctx); err != nil {
			return "", err
		}
		there = (c.found.State == kind.Made || c.found.State == kind.Stopped || c.found.State == kind.Silent) && !c.flags.recreate
		if len(c.found.Nodes) == 0 {
			facts = kind.Measure(ctx, c.profile, false)
		}
	}
	var fatal []string
	for _, trouble := range facts.Troubles(c.profile, c.found != nil && len(c.found.Nodes) > 0) {
		if trouble.Fatal {
			fatal = append(fatal, trouble.String())
		} else {
			c.steps.note(trouble.String())
		}
	}
	if len(fatal) == 1 {
		return "", errors.New(fatal[0])
	}
	if len(fatal) > 1 {
		return "", fmt.Errorf("%d things are in the way:\n  - %s", len(fatal), strings.Join(fatal, "\n  - "))
	}
	if c.found.State == kind.Foreign {
		return "", fmt.Errorf("there is a cluster %s that this command did not make: choose another --name, or delete that one (`cluster delete --name %s --force`)", c.cluster.Name, c.cluster.Name)
	}
	detail := "Docker " + facts.Version
	switch {
	case !there:
		say("asking the registries")
		err := c.chooseImages(ctx)
		return detail + ", images from " + source(c.marker.Images), err
	case c.found.State == kind.Made:
		c.marker = c.found.Marker
		return detail + ", the cluster is there", c.check()
	default:
		return detail + ", the cluster is there and has to be started", nil
	}
}

// check compares a cluster that is there with what is asked for. It stays as it was made.
func (c *creation) check() error {
	if c.marker.Profile != c.profile.Name {
		return fmt.Errorf("the cluster %s was made with the profile %s: --recreate makes it anew with %s, and --name makes another one beside it",
			c.cluster.Name, c.marker.Profile, c.profile.Name)
	}
	if len(c.found.Nodes) != c.profile.Nodes() && c.marker.Hash == c.profile.Hash {
		return fmt.Errorf("%s of the cluster %s are there, and there should be %d: --recreate makes it anew", plural(len(c.found.Nodes), "node"), c.cluster.Name, c.profile.Nodes())
	}
	if c.flags.images != imagesAuto && c.flags.images != c.marker.Images {
		return fmt.Errorf("the cluster %s was made with images from %s: --recreate makes it anew", c.cluster.Name, source(c.marker.Images))
	}
	if c.marker.Hash != c.profile.Hash {
		c.steps.note(fmt.Sprintf("the profile %s or the audit policy was edited after the cluster was made: --recreate makes it as they are now", c.profile.Name))
	}
	return nil
}

// chooseImages decides where images come from.
func (c *creation) chooseImages(ctx context.Context) error {
	switch c.flags.images {
	case imagesAuto:
		c.marker.Images = imagesRegistry
		if err := kind.RegistriesAnswer(ctx); err != nil {
			c.marker.Images = imagesAirGap
			c.steps.note(fmt.Sprintf("no registry (%v): all images are built here; --images registry insists on one", err))
		}
	default:
		c.marker.Images = c.flags.images
	}
	if c.marker.Images == imagesAirGap && c.profile.ControlPlanes() > 1 {
		return fmt.Errorf("the profile %s has %d control planes: the load balancer that kind puts before them is Envoy, which can't be built here; take one control plane, or images from a registry",
			c.profile.Name, c.profile.ControlPlanes())
	}
	return nil
}

func source(images string) string {
	if images == imagesAirGap {
		return "this checkout (air gap)"
	}
	return "a registry"
}

func (c *creation) remove(ctx context.Context, _ func(string)) (string, error) {
	was, err := c.cluster.Delete(ctx)
	c.found = &kind.Found{}
	if !was {
		return "there was none", err
	}
	return "the old one is gone", err
}

// start brings a cluster that was made, and does not answer, to where it does: then it can say what it was made with.
func (c *creation) start(ctx context.Context, say func(string)) (string, error) {
	detail := "its API server answers again"
	switch c.found.State {
	case kind.Stopped:
		say("starting its nodes")
		if err := c.cluster.Start(ctx, c.found.Nodes); err != nil {
			return "", err
		}
		detail = "its nodes were started again"
	case kind.Silent:
		say("waiting for its API server")
		if err := c.cluster.WaitAnswer(ctx); err != nil {
			return "", fmt.Errorf("%w\n--recreate makes a new cluster", err)
		}
	default:
		return "", errNothing
	}
	if err := c.findMade(ctx); err != nil {
		return "", err
	}
	return detail, c.check()
}

// buildImages makes sure that the store has all that will be loaded: before there is a cluster that would wait for it.
func (c *creation) buildImages(ctx context.Context, say func(string)) (string, error) {
	catalogue, err := images.Load()
	if err != nil {
		return "", err
	}
	wanted := catalogue.Set("course")
	if c.marker.Images == imagesAirGap {
		wanted = slices.Concat(catalogue.Set("node"), catalogue.Set("cilium"), catalogue.Set("cert-manager"), wanted)
	}
	built, err := c.build(ctx, wanted, say)
	if err != nil {
		return "", err
	}
	var total int64
	for _, image := range built {
		total += image.Size
	}
	if c.marker.Images == imagesAirGap {
		c.node, built = built[0], built[1:]
	}
	c.others = built
	return fmt.Sprintf("%s, %s", plural(len(wanted), "image"), megabytes(total)), nil
}

// build makes sure that the store has images. What it makes is a line of its own, with its time and size.
func (p *place) build(ctx context.Context, wanted []images.Image, say func(string)) ([]images.Built, error) {
	p.store.Made = func(what string, took time.Duration, bytes int64) {
		p.steps.note(fmt.Sprintf("made %s in %.1f s, %s", what, took.Seconds(), megabytes(bytes)))
	}
	return p.store.Ensure(ctx, wanted, reporting(say))
}

// reporting turns the store's progress into words.
func reporting(say func(string)) images.Progress {
	return func(what string, done, total int64) {
		switch {
		case total > 0:
			say(fmt.Sprintf("%s: %d of %d", what, done, total))
		case done > 0:
			say(fmt.Sprintf("%s: %d", what, done))
		default:
			say(what)
		}
	}
}

func (c *creation) nodeImage(ctx context.Context, say func(string)) (string, error) {
	if c.found.State == kind.Made {
		return "not needed: the nodes are there", nil
	}
	if c.marker.Images == imagesAirGap {
		c.marker.NodeImage = c.node.Reference
		loaded, err := kind.EnsureNodeImage(ctx, c.store, c.node, func(done, total int64) {
			say(fmt.Sprintf("given to Docker: %s of %s", megabytes(done), megabytes(total)))
		})
		return c.node.Reference + happened(loaded, ", given to Docker", ", Docker has it"), err
	}
	c.marker.NodeImage = kind.NodeImage
	if image := c.profile.Image(); image != "" {
		c.marker.NodeImage = image
	}
	say("downloading " + c.marker.NodeImage)
	pulled, err := kind.Pull(ctx, c.marker.NodeImage)
	name, _, _ := strings.Cut(c.marker.NodeImage, "@")
	return name + happened(pulled, ", downloaded", ", Docker has it"), err
}

// create makes the cluster, unless it is there.
func (c *creation) create(ctx context.Context, say func(string)) (string, error) {
	detail := "it is there since " + c.marker.Created.Local().Format("2 Jan 15:04")
	if c.found.State != kind.Made {
		detail = plural(c.profile.Nodes(), "node")
		if c.found.State == kind.Unfinished {
			say("removing what an earlier run left half-made")
			if err := c.cluster.Remove(ctx); err != nil {
				return "", err
			}
			detail += ", after a half-made one was removed"
		}
		if err := c.cluster.Make(ctx, c.profile, c.marker, say); err != nil {
			return "", err
		}
		if err := c.findMade(ctx); err != nil {
			return "", err
		}
	}
	return detail, c.reach()
}

// findMade looks again at a cluster that should be there now.
func (c *creation) findMade(ctx context.Context) (err error) {
	if c.found, err = c.cluster.Find(ctx); err != nil {
		return err
	}
	if c.found.State != kind.Made {
		return fmt.Errorf("the cluster %s is not what this command makes: --recreate makes a new one", c.cluster.Name)
	}
	c.marker = c.found.Marker
	return nil
}

// reach makes the target for add-ons.
func (c *creation) reach() error {
	config, err := c.cluster.Config()
	if err != nil {
		return err
	}
	c.target = targetOf(c.cluster, config, c.profile, c.marker)
	return nil
}

func (c *creation) load(ctx context.Context, say func(string)) (string, error) {
	loaded, err := c.cluster.Load(ctx, c.store, c.others, func(done int64) { say(megabytes(done) + " into all nodes together") })
	if err != nil {
		return "", err
	}
	if loaded == 0 {
		return "the nodes have all images", nil
	}
	return plural(loaded, "image") + " into " + plural(len(c.found.Nodes), "node"), nil
}

func (c *creation) install(addon addons.Addon, namespace string) func(context.Context, func(string)) (string, error) {
	return func(ctx context.Context, say func(string)) (string, error) {
		if err := addon.Install(ctx, c.target, say); err != nil {
			return "", explained(ctx, err, c.target, namespace)
		}
		state, err := addon.State(ctx, c.target)
		return described(state), err
	}
}

func (c *creation) nodesReady(ctx context.Context, say func(string)) (string, error) {
	if err := kind.WaitNodes(ctx, c.target.Config, len(c.found.Nodes), say); err != nil {
		return "", explained(ctx, fmt.Errorf("%w%s", err, c.cluster.Explain(ctx)), c.target, "kube-system")
	}
	return plural(len(c.found.Nodes), "node"), nil
}

// smokeTest is done once for each set of versions: a second run changes nothing.
func (c *creation) smokeTest(ctx context.Context, say func(string)) (string, error) {
	client, err := kubernetes.NewForConfig(c.target.Config)
	if err != nil {
		return "", fmt.Errorf("making a client: %w", err)
	}
	tested, err := c.tested(ctx)
	if err != nil {
		return "", err
	}
	if tested == c.marker.Tested {
		say("looking at the cluster's DNS")
		if err := waitDNS(ctx, client); err != nil {
			return "", explained(ctx, err, c.target, "kube-system")
		}
		return "passed before, with the same versions", nil
	}
	if err := smoke(ctx, client, say); err != nil {
		return "", explained(ctx, err, c.target, smokeNamespace)
	}
	c.marker.Tested = tested
	return "a Pod reached one on another node by its Service's name", c.cluster.Mark(ctx, c.marker)
}

// tested names what a smoke test has passed with.
func (c *creation) tested(ctx context.Context) (string, error) {
	words := []string{c.marker.NodeImage}
	for _, addon := range []addons.Addon{addons.Cilium(c.store), addons.CertManager(c.store)} {
		state, err := addon.State(ctx, c.target)
		if err != nil {
			return "", err
		}
		words = append(words, addon.Name()+" "+state.Installed)
	}
	return strings.Join(words, ", "), nil
}

func (c *creation) kubeconfig(context.Context, func(string)) (string, error) {
	changed, err := c.cluster.WriteKubeconfig()
	return c.cluster.Kubeconfig() + happened(changed, ", written", ""), err
}

// explained adds to an error what the namespace says of it, unless a person ended the step, or the error has it already.
func explained(ctx context.Context, err error, target addons.Target, namespace string) error {
	var late *addons.TimeoutError
	if errors.Is(context.Cause(ctx), context.Canceled) || errors.As(err, &late) {
		return err
	}
	if text := strings.TrimSpace(explain(ctx, target, namespace)); text != "" {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return err
}

// explain is asked when a time is up, and so does not take the end of ctx.
func explain(ctx context.Context, target addons.Target, namespace string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	return workloads(ctx, target, namespace) + addons.Explain(ctx, target, namespace)
}

func happened(did bool, yes, no string) string {
	if did {
		return yes
	}
	return no
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func megabytes(bytes int64) string { return fmt.Sprintf("%d MB", (bytes+500_000)/1_000_000) }

// defaultCluster keeps the name in one place for texts.
const defaultCluster = docker.DefaultCluster

func described(state addons.State) string {
	return strings.TrimSuffix(state.Installed+", "+state.Detail, ", ")
}
