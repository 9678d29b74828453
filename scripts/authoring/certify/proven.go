// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/mod/sumdb/dirhash"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/node/manifests"
	"lva.io/operators/clusters/node/targets"
	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/authoring/mutate"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/changes"
	"lva.io/operators/scripts/checkout/manifest"
)

// proven has the submissions that got the expected grade on this machine. A record covers everything that decides the
// grade: the submission, its expected grade, the checks, the harness, the control plane, controller-gen and the version
// of Go. If Pods run, it also covers the node's programs, the installer of add-ons and the images.
type proven struct {
	// dir is the folder of a lab and its current graders.
	dir string
}

// unusedTime is how long the proofs of a grader are kept after their last use. Other checkouts have other graders and
// share this folder, so their proofs must not be removed early.
const unusedTime = 14 * 24 * time.Hour

// graders has everything that grades a lab: code, the files of programs, and images.
type graders struct {
	harness  string
	programs []string
	images   []images.Built
}

// addNode adds the parts of the lab's clusters in which Pods run: the programs of the node, the installer of the lab's
// add-ons, and the images that checkout.Prepare makes. complete is false if one of them is missing, for example on a
// machine that can't run a node.
func (g *graders) addNode(repo *checkout.Checkout, lab *manifest.Lab) (complete bool, err error) {
	for _, program := range targets.Node(repo.Root) {
		g.programs = append(g.programs, program.Output)
	}
	if len(lab.Addons) > 0 {
		g.programs = append(g.programs, repo.Installer().Program)
	}
	for _, program := range g.programs {
		if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
	}
	catalogue, err := images.Load()
	if err != nil {
		return false, err
	}
	wanted := catalogue.Set("course")
	for _, addon := range lab.Addons {
		wanted = append(wanted, catalogue.Set(addon)...)
	}
	running, err := manifests.Images()
	if err != nil {
		return false, err
	}
	for _, reference := range running {
		image, err := catalogue.Image(reference)
		if err != nil {
			return false, err
		}
		wanted = append(wanted, image)
	}
	g.images, err = images.StoreOf(repo.Root).Find(wanted)
	return len(g.images) == len(wanted), err
}

// digest identifies the graders of a lab.
func (g *graders) digest(lab *manifest.Lab) (string, error) {
	encoded, err := json.Marshal(lab)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n%s\n", runtime.Version(), encoded, g.harness)
	for _, image := range g.images {
		fmt.Fprintln(sum, image.Reference, image.ID)
	}
	for _, program := range g.programs {
		digest, err := gobuild.Digest(program)
		if err != nil {
			return "", fmt.Errorf("reading the files of the grader: %w", err)
		}
		fmt.Fprintln(sum, digest)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// newProven opens the records of a lab that these graders grade, in a folder.
func newProven(folder string, lab *manifest.Lab, by graders) (*proven, error) {
	digest, err := by.digest(lab)
	if err != nil {
		return nil, err
	}
	all := filepath.Join(folder, lab.Name)
	dir := filepath.Join(all, digest)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("saving what is proven: %w", err)
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil { // the folder is in use, however old it is
		return nil, fmt.Errorf("saving what is proven: %w", err)
	}
	others, err := os.ReadDir(all)
	if err != nil {
		return nil, fmt.Errorf("reading what is proven: %w", err)
	}
	for _, other := range others {
		info, err := other.Info()
		if err != nil || now.Sub(info.ModTime()) < unusedTime {
			continue // another command may just have removed it
		}
		if err := os.RemoveAll(filepath.Join(all, other.Name())); err != nil {
			return nil, fmt.Errorf("removing the proofs of another grader: %w", err)
		}
	}
	return &proven{dir: dir}, nil
}

// file returns the name of the record for a candidate that is laid out in a folder, and for its expected grade.
// Comments of Go files do not count.
func (p *proven) file(c candidate, dir string) (string, error) {
	content, err := codeOf(dir)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", c.name, err)
	}
	must := fmt.Sprintf("%+v %t %q %t %t %t %t",
		c.expectation, c.torture, c.failsAs, c.ungraded, c.base, c.design != "", c.misconception != "")
	return filepath.Join(p.dir, fmt.Sprintf("%s-%x", c.name, sha256.Sum256([]byte(content+must)))), nil
}

// codeOf returns a digest of the files of a folder that a grade can depend on. It leaves out the lists of mutants,
// since no part of a grader reads them in a submission. Unit tests count: their regions decide which steps of a
// skeleton have not begun.
func codeOf(dir string) (string, error) {
	files, err := dirhash.DirFiles(dir, "")
	if err != nil {
		return "", err
	}
	files = slices.DeleteFunc(files, func(name string) bool {
		return name == mutant.File || name == mutate.SurvivorsFile
	})
	return dirhash.Hash1(files, func(name string) (io.ReadCloser, error) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if filepath.Ext(name) == ".go" {
			content = changes.Code(content)
		}
		return io.NopCloser(bytes.NewReader(content)), err
	})
}

// has reports whether the submission is proven.
func (p *proven) has(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// keep records that the submission is proven.
func (p *proven) keep(file string) error {
	if err := renameio.WriteFile(file, nil, 0o644); err != nil {
		return fmt.Errorf("saving what is proven: %w", err)
	}
	return nil
}
