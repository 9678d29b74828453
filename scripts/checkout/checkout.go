// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package checkout finds the files and programs of a checkout of this repository, and builds those that a grading run
// needs when they are missing or stale. It runs none of them.
//
// The packages below it hold what every command needs from a checkout: the list of labs (manifest), the programs and
// their archives (programs), what changed since a commit (changes), running other programs (command), starting and
// ending our commands (cli), and add-ons (addons). Packages that grade, check or generate belong in other wings. This
// wing imports none of them.
package checkout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/mod/modfile"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/node"
	"lva.io/operators/clusters/node/manifests"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout/addons"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/checkout/programs"
)

// Checkout is a checkout of this repository.
type Checkout struct {
	// Root is the absolute path of its top folder.
	Root string
	// ControlPlane is the program of the embedded cluster.
	ControlPlane *multicall.Program
	// Labs is the list of labs.
	Labs *manifest.Manifest
}

// Find finds the checkout in which the running program was built (.cache/bin/lab), so that the program can be called
// from anywhere. Otherwise it finds the checkout that contains the working folder.
func Find() (*Checkout, error) {
	var starts []string
	if executable, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(executable); err == nil {
			starts = append(starts, filepath.Dir(resolved))
		}
	}
	if folder, err := os.Getwd(); err == nil {
		starts = append(starts, folder)
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(manifest.File))); err == nil {
				return open(dir)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil, errors.New("this is not a checkout of Operator Labs: change into one, or call its .cache/bin/lab")
}

func open(root string) (*Checkout, error) {
	program, err := multicall.New(root)
	if err != nil {
		return nil, err
	}
	labs, err := manifest.Load(root)
	if err != nil {
		return nil, err
	}
	return &Checkout{Root: root, ControlPlane: program, Labs: labs}, nil
}

// Modules returns the folders of the workspace's modules, slash-separated, as go.work lists them.
func (c *Checkout) Modules() ([]string, error) {
	file := filepath.Join(c.Root, "go.work")
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the workspace: %w", err)
	}
	work, err := modfile.ParseWork(file, content, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the workspace: %w", err)
	}
	var modules []string
	for _, use := range work.Use {
		modules = append(modules, path.Clean(use.Path))
	}
	return modules, nil
}

// Dir returns the folder of a lab that students edit.
func (c *Checkout) Dir(lab *manifest.Lab) string { return filepath.Join(c.Root, "labs", lab.Name) }

// SolutionDir returns the folder of a lab's solution.
func (c *Checkout) SolutionDir(lab *manifest.Lab) string {
	return filepath.Join(c.Root, "solutions", lab.Name)
}

// LabOf returns the lab whose folder, or whose solution's folder, this is. It is nil for any other folder.
func (c *Checkout) LabOf(dir string) *manifest.Lab {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	for i := range c.Labs.Labs {
		if lab := &c.Labs.Labs[i]; dir == c.Dir(lab) || dir == c.SolutionDir(lab) {
			return lab
		}
	}
	return nil
}

// appendix matches the name of a lecture's appendix.
var appendix = regexp.MustCompile(`^0?(\d+[a-z])$`)

// Lecture returns the lecture of a lab that a user has named, or an appendix, such as 3a. It is a path from the root.
func (c *Checkout) Lecture(ref string) (string, error) {
	if match := appendix.FindStringSubmatch(ref); match != nil {
		pages, err := fs.Glob(os.DirFS(c.Root), fmt.Sprintf("docs/lectures/%03s-*.md", match[1]))
		if err != nil || len(pages) == 1 {
			return strings.Join(pages, ""), err
		}
	}
	lab, err := c.Labs.Lab(ref)
	if err != nil {
		return "", err
	}
	return lab.Lecture, nil
}

// Out returns the folder of a lab's reports, and creates it if it does not exist.
func (c *Checkout) Out(name string) (string, error) {
	dir := filepath.Join(c.Root, "out", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the folder for reports: %w", err)
	}
	return dir, nil
}

// ReportsOf names the folder of the reports of a submission outside the checkout, below out/submissions. No two
// submissions have the same folder.
func ReportsOf(dir string) string {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	digest := sha256.Sum256([]byte(dir))
	// The name is for people. It may contain anything, and be as long as a file's name may be.
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return '_'
	}, filepath.Base(dir))
	const longest = 40
	letters := []rune(name)
	return string(letters[:min(len(letters), longest)]) + "-" + hex.EncodeToString(digest[:4])
}

// BuildCache returns the folder that keeps the built program of the submission in a folder. Submissions outside the
// checkout have none, because no one would ever delete what accumulated there.
func (c *Checkout) BuildCache(submission string) string {
	name, err := filepath.Rel(c.Root, submission)
	if err != nil || !filepath.IsLocal(name) {
		return ""
	}
	return filepath.Join(c.Root, ".cache", "submissions", name)
}

// Playground returns the checkout's cluster for experiments.
func (c *Checkout) Playground() *embedded.Playground { return embedded.NewPlayground(c.Root) }

// Prepare builds everything that grading the labs needs and that is missing or stale, and shows its progress. withNode
// is true if Pods are to run on the embedded cluster.
func (c *Checkout) Prepare(ctx context.Context, withNode bool, labs ...*manifest.Lab) error {
	all := []programs.Program{programs.ControlPlane(c.ControlPlane), programs.ControllerGen(c.Root)}
	for _, lab := range labs {
		all = append(all, programs.Checks(c.Root, lab.Name))
	}
	if err := programs.Ensure(ctx, c.Root, os.Stderr, all...); err != nil || !withNode {
		return err
	}
	if parts, err := c.EnsureNode(ctx); err != nil || parts.Unavailable != nil {
		return err
	}
	return c.EnsureAddons(ctx, manifest.AddonsOf(labs...))
}

// EnsureAddons builds what installing add-ons needs, unless it exists: the program that installs them, and the images
// that their Pods run. If one of the names is unknown, the error lists the known add-ons.
func (c *Checkout) EnsureAddons(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if _, err := c.EnsureAddonImages(ctx, names); err != nil {
		return err
	}
	return c.EnsureInstaller(ctx)
}

// EnsureInstaller builds the program that installs add-ons, unless it exists.
func (c *Checkout) EnsureInstaller(ctx context.Context) error {
	_, err := c.ensure(ctx, programs.Addons(c.Root))
	return err
}

// EnsureAddonImages builds the images of add-ons that the store does not have, and returns all of them.
func (c *Checkout) EnsureAddonImages(ctx context.Context, names []string) ([]images.Built, error) {
	if err := known.Check(names); err != nil {
		return nil, err
	}
	catalogue, err := images.Load()
	if err != nil {
		return nil, err
	}
	var wanted []images.Image
	for _, name := range names {
		wanted = append(wanted, catalogue.Set(name)...)
	}
	return c.EnsureImages(ctx, wanted)
}

// Installer returns an installer of add-ons. EnsureAddons must have built what it needs.
func (c *Checkout) Installer() addons.Installer {
	return addons.Installer{Program: programs.Addons(c.Root).Output, Root: c.Root}
}

// EnsureControlPlane builds the control plane, unless it exists.
func (c *Checkout) EnsureControlPlane(ctx context.Context) error {
	_, err := c.ensure(ctx, programs.ControlPlane(c.ControlPlane))
	return err
}

// EnsureNode builds the control plane and the parts of its node, unless they exist: programs, the images of the Pods
// that every node runs, the images of the course, and more images. If this machine cannot run a node, it builds only
// the program that finds that out, and the returned parts contain the reason.
func (c *Checkout) EnsureNode(ctx context.Context, more ...images.Image) (embedded.NodeParts, error) {
	parts := embedded.NodeParts{Programs: node.ProgramsOf(c.Root), Images: images.StoreOf(c.Root).Dir}
	first := append([]programs.Program{programs.ControlPlane(c.ControlPlane)}, programs.NodeInit(c.Root)...)
	if err := programs.Ensure(ctx, c.Root, os.Stderr, first...); err != nil {
		return parts, err
	}
	err := node.Probe(ctx, parts.Programs)
	if unavailable, ok := errors.AsType[*node.Unavailable](err); ok {
		parts.Unavailable = unavailable
		return parts, nil
	}
	if err != nil {
		return parts, err
	}
	rest, err := programs.Node(c.Root)
	if err != nil {
		return parts, err
	}
	if err := programs.Ensure(ctx, c.Root, os.Stderr, rest...); err != nil {
		return parts, err
	}
	wanted, err := nodeImages()
	if err != nil {
		return parts, err
	}
	_, err = c.EnsureImages(ctx, append(wanted, more...))
	return parts, err
}

// nodeImages returns the images of the Pods that every node runs, and the course's own. A Pod with a missing image
// would cause a build of it, too. But the store may contain images of an older checkout, which have the same names and
// other contents.
func nodeImages() ([]images.Image, error) {
	catalogue, err := images.Load()
	if err != nil {
		return nil, err
	}
	running, err := manifests.Images()
	if err != nil {
		return nil, err
	}
	wanted := catalogue.Set("course")
	for _, reference := range running {
		image, err := catalogue.Image(reference)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, image)
	}
	return wanted, nil
}

// EnsureImages builds the images that the store does not have, and shows its progress if there are any. It returns all
// of them.
func (c *Checkout) EnsureImages(ctx context.Context, wanted []images.Image) ([]images.Built, error) {
	return ensureImages(ctx, images.StoreOf(c.Root), wanted)
}

func ensureImages(ctx context.Context, store *images.Store, wanted []images.Image) ([]images.Built, error) {
	have, err := store.Find(wanted)
	if err != nil {
		return nil, err
	}
	if len(have) == len(wanted) {
		return store.Ensure(ctx, wanted, nil) // an image of the same name may be another one
	}
	bar := progress.Start(os.Stderr, "make images")
	made, err := store.Ensure(ctx, wanted, func(what string, done, total int64) { bar.Set(what, int(done), int(total)) })
	if err != nil {
		bar.Fail()
		return nil, err
	}
	bar.Done()
	return made, nil
}

// Assets returns the folder in which controller-runtime's envtest finds etcd, kube-apiserver and kubectl. All three are
// our control plane under these names. Assets builds the control plane, unless it exists.
func (c *Checkout) Assets(ctx context.Context) (string, error) {
	if err := c.EnsureControlPlane(ctx); err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(c.ControlPlane.Path), "assets")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("laying out the programs for envtest: %w", err)
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		program := filepath.Join("..", filepath.Base(c.ControlPlane.Path))
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("laying out the programs for envtest: %w", err)
		}
	}
	return dir, nil
}

// ControllerGen returns the path of controller-gen, which generates manifests from markers. It is built unless it
// exists.
func (c *Checkout) ControllerGen(ctx context.Context) (string, error) {
	return c.ensure(ctx, programs.ControllerGen(c.Root))
}

// ClientGenerators returns the paths of client-gen, lister-gen and informer-gen, in this order. They are built unless
// they exist.
func (c *Checkout) ClientGenerators(ctx context.Context) (paths []string, err error) {
	for _, program := range programs.ClientGenerators(c.Root) {
		path, err := c.ensure(ctx, program)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// GolangCILint returns the path of the linter. It is built unless it exists.
func (c *Checkout) GolangCILint(ctx context.Context) (string, error) {
	return c.ensure(ctx, programs.GolangCILint(c.Root))
}

// Helm returns the path of Helm's own command. It is built unless it exists.
func (c *Checkout) Helm(ctx context.Context) (string, error) {
	return c.ensure(ctx, programs.Helm(c.Root))
}

// Gotestsum returns the path of gotestsum, which runs the unit tests. It is built unless it exists.
func (c *Checkout) Gotestsum(ctx context.Context) (string, error) {
	return c.ensure(ctx, programs.Gotestsum(c.Root))
}

// Checks returns the path of the test binary of a lab's checks. It is built unless it exists and matches its sources.
func (c *Checkout) Checks(ctx context.Context, lab *manifest.Lab) (string, error) {
	return c.ensure(ctx, programs.Checks(c.Root, lab.Name))
}

// Conformance returns the path of the program of Kubernetes' own conformance suite. It is built unless it exists.
func (c *Checkout) Conformance(ctx context.Context) (string, error) {
	return c.ensure(ctx, programs.Conformance(c.Root))
}

func (c *Checkout) ensure(ctx context.Context, program programs.Program) (string, error) {
	return program.Output, programs.Ensure(ctx, c.Root, os.Stderr, program)
}
