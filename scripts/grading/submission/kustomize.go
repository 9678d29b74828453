// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/limited"
)

const (
	kustomizeTimeout = time.Minute
	// deployedLimit is the maximum size of the manifests that config/default renders, in bytes. It is the same as for
	// those that are generated from the markers.
	deployedLimit = generatedLimit
)

// Kustomize renders the submission's manifests as `make deploy` does: config/default, with kustomize and the manifests
// that Generate made from the markers. kubectl is a program that runs kubectl when its first argument is "kubectl". If
// kustomize can't build the manifests, the error is a *Problem.
func (b *Builder) Kustomize(ctx context.Context, kubectl string) ([]*unstructured.Unstructured, error) {
	dir := filepath.Join(b.Scope.Dir, "deploy")
	if err := b.layOut(dir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, kustomizeTimeout, errTooLong)
	defer cancel()
	output := limited.NewOutput(deployedLimit)
	mistakes := limited.NewOutput(outputLimit)
	p, err := b.Scope.Start(process.Spec{
		Name: "kustomize", Path: kubectl, Args: []string{"kubectl", "kustomize", filepath.Join(dir, "config", "default")},
		Dir: dir, Env: kustomizeEnvironment(dir), Stdout: output, Stderr: mistakes,
	})
	if err != nil {
		return nil, err
	}
	err = p.Wait(ctx)
	message := strings.ReplaceAll(strings.TrimSpace(mistakes.String()), dir+string(filepath.Separator), "")
	if err := problem(err, message, "kustomize can't build config/default, so it can't be deployed",
		fmt.Sprintf("kustomize took longer than %s", kustomizeTimeout)); err != nil {
		return nil, err
	}
	if output.Full() {
		return nil, &Problem{Reason: fmt.Sprintf("config/default renders more than %d MB of manifests, "+
			"so it can't be deployed", deployedLimit>>20)}
	}
	objects, err := decodeYAML(bytes.NewReader(output.Bytes()))
	if err != nil {
		return nil, fmt.Errorf("reading the output of kustomize: %w", err)
	}
	return objects, nil
}

// kustomizeEnvironment keeps kustomize from the network: it finds no git to clone with, and no proxy that answers.
// layOutKustomizations reports what a kustomization would download, and this environment stops downloads that
// layOutKustomizations can't detect.
func kustomizeEnvironment(home string) []string {
	const unreachable = "http://127.0.0.1:0"
	return []string{"HOME=" + home, "HTTP_PROXY=" + unreachable, "HTTPS_PROXY=" + unreachable}
}

// layOut copies the files of the submission that kustomize reads, and overwrites them with the manifests that are
// generated from the markers.
func (b *Builder) layOut(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("laying out the manifests: %w", err)
	}
	if _, err := b.ReadFile("config/default/kustomization.yaml"); errors.Is(err, fs.ErrNotExist) {
		return &Problem{Reason: "there is no config/default, so it can't be deployed: kubebuilder's layout has one"}
	}
	if err := b.layOutKustomizations(dir); err != nil {
		return err
	}
	config := filepath.Join(dir, "config")
	files := map[string][]byte{}
	for _, object := range b.generated {
		content, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("laying out the manifests: %w", err)
		}
		file := filepath.Join("rbac", "role.yaml")
		if object.GetKind() == DefinitionKind {
			group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
			plural, _, _ := unstructured.NestedString(object.Object, "spec", "names", "plural")
			name := group + "_" + plural
			if strings.ContainsAny(name, `/\`) {
				return &Problem{Reason: fmt.Sprintf("the markers generate a definition called %q, "+
					"which is not a valid name: check +groupName", name)}
			}
			file = filepath.Join("crd", "bases", name+".yaml")
		} else if _, ok := Configurations[object.GetKind()]; ok {
			file = filepath.Join("webhook", "manifests.yaml")
		}
		files[file] = append(append(files[file], "---\n"...), content...)
	}
	for file, content := range files {
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(filepath.Join(config, file)), 0o700),
			os.WriteFile(filepath.Join(config, file), content, 0o600),
		); err != nil {
			return fmt.Errorf("laying out the manifests: %w", err)
		}
	}
	return nil
}
