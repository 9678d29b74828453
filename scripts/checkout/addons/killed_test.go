// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/addons"
	"lva.io/operators/scripts/grading/stage/stagetest"
)

// kills are the moments at which an install is killed, evenly spread over its time.
const kills = 10

// The test kills the install of all add-ons at ten moments from its first request to its last proof. The next install
// always makes all of them usable. Then the test removes the playground, and nothing of it is left.
func TestInstallSucceedsAfterKill(t *testing.T) {
	longtest.Proof(t)
	clone, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	parts := stagetest.Node(t, clone)
	if err := clone.EnsureAddons(t.Context(), known.Names()); err != nil {
		t.Fatal(err)
	}
	playground := embedded.NewPlayground(t.TempDir())
	t.Cleanup(func() { _, _ = playground.Down() })
	if _, err := playground.UpWithNode(t.Context(), clone.ControlPlane, parts); err != nil {
		t.Fatal(err)
	}
	installer := clone.Installer()

	began := time.Now()
	usable(t, installer, playground)
	// The first install takes longer than the others, for which the kinds already exist.
	whole := time.Since(began) * 6 / 10
	killed := 0
	for i := range kills {
		after := whole * time.Duration(2*i+1) / (2 * kills)
		forget(t, installer, playground, i)
		if kill(t, installer, playground, after) {
			killed++
		}
		began := time.Now()
		usable(t, installer, playground)
		t.Logf("killed after %.1f s of %.1f s; the next install took %.1f s",
			after.Seconds(), whole.Seconds(), time.Since(began).Seconds())
	}
	if killed < kills/2 {
		t.Errorf("only %d of %d installs were killed before they ended, so the rest prove nothing", killed, kills)
	}

	if was, err := playground.Down(); err != nil || !was {
		t.Errorf("ending the playground: %v, %v", was, err)
	}
	if _, err := os.Stat(playground.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the playground's folder still exists: %v", err)
	}
}

// usable installs all add-ons, and fails the test unless each of them is usable then.
func usable(t *testing.T, installer addons.Installer, playground *embedded.Playground) {
	t.Helper()
	var messages []string
	if err := installer.Install(t.Context(), playground.Kubeconfig(), known.Names(), func(line string) {
		messages = append(messages, line)
	}); err != nil {
		t.Fatalf("%v\nmessages: %q", err, messages)
	}
	states, err := installer.States(t.Context(), playground.Kubeconfig(), known.Names())
	if err != nil {
		t.Fatal(err)
	}
	if len(states) != len(known.Names()) ||
		slices.ContainsFunc(states, func(state known.State) bool { return !state.Usable || state.Installed == "" }) {
		t.Fatalf("after the install, the states are %+v; the messages are %q", states, messages)
	}
}

// forget removes what the previous install created, by an uninstall, or like a user who deletes Deployments or
// namespaces. The deletion of the namespaces takes a quarter of a minute, so it is done only once.
func forget(t *testing.T, installer addons.Installer, playground *embedded.Playground, i int) {
	t.Helper()
	config, err := playground.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	background := metav1.DeletePropagationBackground
	switch {
	case i%3 == 0:
		err = installer.Uninstall(t.Context(), playground.Kubeconfig(), known.Names())
	case i == 1:
		for _, name := range known.Names() {
			err = errors.Join(err, client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
	default:
		for _, name := range known.Names() {
			err = errors.Join(err, client.AppsV1().Deployments(name).DeleteCollection(t.Context(),
				metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// kill starts an install, kills it, and reports whether it was still running.
func kill(t *testing.T, installer addons.Installer, playground *embedded.Playground, after time.Duration) bool {
	t.Helper()
	program := exec.Command(installer.Program,
		append([]string{"install", "--root", installer.Root, "--kubeconfig", playground.Kubeconfig()}, known.Names()...)...)
	var failed strings.Builder
	program.Stderr = &failed
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = program.Process.Kill() })
	defer timer.Stop()
	err := program.Wait()
	ended, ok := errors.AsType[*exec.ExitError](err)
	if ok && ended.Exited() {
		t.Fatalf("the install failed by itself: %s", failed.String())
	}
	return err != nil
}
