// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/node/manifests"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/stage/stagetest"
)

// withNode creates a checkout of its own with the parts of a node that were built in this one.
func withNode(t *testing.T) string {
	t.Helper()
	stagetest.Node(t, findCheckout(t))
	root := newCheckout(t)
	for _, name := range []string{".cache/node", ".cache/images"} {
		if err := os.Symlink(filepath.Join(findCheckout(t).Root, name), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// wantDone runs a command that must succeed.
func wantDone(t *testing.T, root string, args ...string) (printed string) {
	t.Helper()
	got := run(t, root, args...)
	if got.code != 0 {
		t.Fatalf("lab %s: exit code %d: %s%s", strings.Join(args, " "), got.code, got.stdout, got.stderr)
	}
	return got.stdout
}

// The test runs the commands of `make docker-build deploy` and `make undeploy` of a lab on the playground.
func TestDeployAndUndeployOperator(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := withNode(t)
	wantDone(t, root, "up")
	// listObjects returns the objects of the playground, without those that come and go by themselves.
	listObjects := func() string {
		return wantDone(t, root, "kubectl", "get",
			"namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,deployments,daemonsets,pods",
			"--all-namespaces", "--output=name")
	}
	before := listObjects()
	const image = "test/deployed:v1"
	dir := filepath.Join(root, "solutions", "03-finalizer")
	wantDone(t, root, "image", "load", image, "--dir", dir)
	wantDone(t, root, "deploy", image, "--dir", dir)
	wantDone(t, root, "kubectl", "wait", "--namespace=icecream-system",
		"--for=condition=Available", "deployment", "--all", "--timeout=60s")
	running := wantDone(t, root, "kubectl", "get", "pods",
		"--namespace=icecream-system", "--output=jsonpath={.items[*].spec.containers[*].image}")
	if running != image {
		t.Errorf("the operator's Pods run %q, want %s", running, image)
	}
	wantDone(t, root, "undeploy", "--dir", dir)
	if after := listObjects(); after != before {
		t.Errorf("objects after undeploy:\n%s\nwant those before deploy:\n%s", after, before)
	}

	deployToEachNode(t, root)
	if after := listObjects(); after != before {
		t.Errorf("objects after undeploy of the DaemonSet:\n%s\nwant those before:\n%s", after, before)
	}

	// A new project's Makefile does the same, on the same playground. The project is in the checkout, so its commands use
	// that checkout.
	project := filepath.Join(root, "webapp")
	wantDone(t, root, "new", project, "--domain", "lva.io", "--group", "apps", "--version", "v1alpha1", "--kind", "WebApp")
	if output, err := makeIn(t, project, "test-e2e"); err != nil {
		t.Errorf("make test-e2e: %v\n%s", err, output)
	}
	if after := listObjects(); after != before {
		t.Errorf("objects after undeploy of the project:\n%s\nwant those before:\n%s", after, before)
	}
}

// deployToEachNode deploys lab 10's DaemonSet, which writes a file on each node, as its task page describes.
func deployToEachNode(t *testing.T, root string) {
	t.Helper()
	const image = "test/each-node:v1"
	dir := filepath.Join(root, "solutions", "10-informer")
	wantDone(t, root, "image", "load", image, "--dir", dir)
	wantDone(t, root, "deploy", image, "--dir", dir)
	const namespace = "--namespace=authorizedkeys-system"
	wantDone(t, root, "kubectl", "rollout", "status", "daemonset,deployment", namespace, "--timeout=60s")
	// The node's own files and their modes are read in a Pod that mounts them.
	eventually := func(what string, right func(printed string) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			printed := wantDone(t, root, "kubectl", "debug", "node/"+embedded.NodeName,
				"--attach", "--quiet", "--profile=general", "--image="+manifests.VolumeHelper, "--",
				"sh", "-c", "ls -l /host/etc/ssh/nodes; cat /host/etc/ssh/nodes/authorized_keys")
			if right(printed) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: content of the node:\n%s", what, printed)
			}
		}
	}
	sample := filepath.Join(dir, "config", "samples", "node_v1alpha1_authorizedkey.yaml")
	wantDone(t, root, "kubectl", "create", "--filename="+sample,
		"--as=admin", "--as-group=system:masters", "--as-group=key-admins")
	eventually("an AuthorizedKey was created", func(printed string) bool {
		return strings.Contains(printed, "-rw-r--r-- ") && strings.Contains(printed, " authorizedkey:ada\n")
	})
	// The node's account may not write the status. Only the Deployment does.
	wantDone(t, root, "kubectl", "wait", "authorizedkey/ada", "--for=condition=Accepted", "--timeout=60s")
	printed := wantDone(t, root, "kubectl", "logs", "daemonset/authorizedkeys-node-agent", namespace)
	if strings.Contains(printed, "forbidden") {
		t.Errorf("the Pod of the node sends forbidden requests:\n%s", printed)
	}
	wantDone(t, root, "kubectl", "delete", "authorizedkeys", "--all")
	eventually("all AuthorizedKeys were deleted", func(printed string) bool {
		return printed == "-rw-r--r-- 0 authorized_keys\n"
	})
	wantDone(t, root, "kubectl", "delete", "pods", "--all")
	wantDone(t, root, "undeploy", "--dir", dir)
}

// A playground that `lab run` starts has a node only if the lab's operator is a Pod in grading.
func TestRunStartsPlaygroundWithNode(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := withNode(t)
	labs := filepath.Join(root, "labs")
	listed, err := os.ReadFile(filepath.Join(root, manifest.File))
	if err != nil {
		t.Fatal(err)
	}
	const second = "  name: 02-reconciler\n"
	changed := strings.Replace(string(listed), second, second+"  stage: pod\n", 1)
	if changed == string(listed) {
		t.Fatalf("labs.yaml has no line %q", second)
	}
	entries, err := os.ReadDir(labs)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(labs), os.Mkdir(labs, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.Symlink(
			filepath.Join(findCheckout(t).Root, "labs", entry.Name()), filepath.Join(labs, entry.Name()),
		); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(root, manifest.File)
	if err := errors.Join(os.Remove(own), os.WriteFile(own, []byte(changed), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ lab, node string }{{"2", "node"}, {"4", ""}} {
		operator, _ := runOperator(t, root, test.lab, "--solution")
		status := wantDone(t, root, "status")
		if has := strings.Contains(status, "\n  node "); has != (test.node != "") {
			t.Errorf("status of the playground after `lab run %s`:\n%s", test.lab, status)
		}
		// Unlike the operator, the playground stays.
		if err := operator.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := operator.Wait(); err != nil {
			t.Error(err)
		}
		wantDone(t, root, "down")
	}
}
