// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"lva.io/operators/clusters/embedded"
	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/command"
	"lva.io/operators/scripts/checkout/programs"
	"lva.io/operators/scripts/services/acme/acmetest"
)

// generate runs controller-gen for the toy's API, and returns the folder with what it wrote.
func generate(t *testing.T, repo *checkout.Checkout, what, api string) (dir string) {
	t.Helper()
	generator := programs.ControllerGen(repo.Root)
	if err := programs.Ensure(t.Context(), repo.Root, os.Stderr, generator); err != nil {
		t.Fatal(err)
	}
	runner, err := command.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runner.Close() })
	dir = t.TempDir()
	_, err = runner.Run(t.Context(), filepath.Join(repo.Root, "scripts"), []string{"GOWORK=off"},
		generator.Output, what, "paths=./authoring/examples/"+api, "output:dir="+dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func checkedOut(t *testing.T) *checkout.Checkout {
	t.Helper()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// apiServer is a real API server that serves greenhouses, and a client of it. Kubernetes' controllers run there, and
// none of the toy's.
func apiServer(t *testing.T) (*rest.Config, client.Client) {
	t.Helper()
	repo := checkedOut(t)
	if err := repo.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster, err := embedded.StartServer(t.Context(), repo.ControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := envtest.InstallCRDs(cluster.Config(), envtest.CRDInstallOptions{
		Paths: []string{generate(t, repo, "crd", "greenhouse/api/...")}, ErrorIfPathMissing: true,
	}); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), playv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Config(), c
}

func newGreenhouse(name string, lowest, highest int32) *playv1.Greenhouse {
	return &playv1.Greenhouse{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       playv1.GreenhouseSpec{MinCelsius: lowest, MaxCelsius: highest},
	}
}

func requestFor(object client.Object) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
}

func TestOnARealAPIServer(t *testing.T) {
	t.Parallel()
	config, api := apiServer(t)
	t.Run("the rule between two fields is enforced", func(t *testing.T) {
		t.Parallel()
		err := api.Create(t.Context(), newGreenhouse("upside-down", 30, 10))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "minCelsius is above maxCelsius") {
			t.Errorf("creating a greenhouse with 30 to 10 degrees: error = %v", err)
		}
	})
	t.Run("the climate settles, and is corrected", func(t *testing.T) {
		t.Parallel()
		settle(t, api)
	})
	t.Run("the heater is off before the greenhouse is deleted", func(t *testing.T) {
		t.Parallel()
		heat(t, api)
	})
	t.Run("the camera is applied, and its condition reported", func(t *testing.T) {
		t.Parallel()
		testCamera(t, api)
	})
	t.Run("the board clears objects deleted while the watch was interrupted", func(t *testing.T) {
		t.Parallel()
		display(t, config, api)
	})
	t.Run("the index finds greenhouses by their plants", func(t *testing.T) {
		t.Parallel()
		find(t, config, api)
	})
}

func settle(t *testing.T, api client.Client) {
	t.Helper()
	reconciler := &ClimateReconciler{Client: api}
	greenhouse := newGreenhouse("palms", 12, 30)
	if err := api.Create(t.Context(), greenhouse); err != nil {
		t.Fatal(err)
	}
	settings := corev1.ConfigMap{}
	read := func() string {
		t.Helper()
		if _, err := reconciler.Reconcile(t.Context(), requestFor(greenhouse)); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), types.NamespacedName{
			Namespace: greenhouse.Namespace, Name: "palms-climate",
		}, &settings); err != nil {
			t.Fatal(err)
		}
		if settings.Data["min"] != "12" || settings.Data["max"] != "30" || !metav1.IsControlledBy(&settings, greenhouse) {
			t.Errorf("got settings %v with owners %v", settings.Data, settings.OwnerReferences)
		}
		return settings.ResourceVersion
	}
	first := read()
	if again := read(); again != first {
		t.Errorf("a second call wrote: resource version was %s, then %s", first, again)
	}
	settings.Data["min"] = "-3"
	if err := api.Update(t.Context(), &settings); err != nil {
		t.Fatal(err)
	}
	read()
	held := newGreenhouse("dying", 12, 30)
	held.Finalizers = []string{"play.lva.io/held"}
	if err := errors.Join(api.Create(t.Context(), held), api.Delete(t.Context(), held)); err != nil {
		t.Fatal(err)
	}
	if _, err := reconciler.Reconcile(t.Context(), requestFor(held)); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), types.NamespacedName{Namespace: held.Namespace, Name: "dying-climate"},
		&settings); !apierrors.IsNotFound(err) {
		t.Errorf("a greenhouse that is being deleted has settings: %v", err)
	}
}

// heaters notes the calls, and fails while it is broken.
type heaters struct {
	api    client.Client
	key    client.ObjectKey
	broken error
	calls  []string
}

func (h *heaters) note(ctx context.Context, call string) error {
	var greenhouse playv1.Greenhouse
	if err := h.api.Get(ctx, h.key, &greenhouse); err != nil {
		return err
	}
	h.calls = append(h.calls, fmt.Sprintf("%s with %v", call, greenhouse.Finalizers))
	return h.broken
}

func (h *heaters) TurnOn(ctx context.Context, _ types.UID, _ int32) error { return h.note(ctx, "on") }

func (h *heaters) TurnOff(ctx context.Context, _ types.UID) error { return h.note(ctx, "off") }

func heat(t *testing.T, api client.Client) {
	t.Helper()
	greenhouse := newGreenhouse("orchids", 16, 28)
	outside := &heaters{api: api, key: client.ObjectKeyFromObject(greenhouse), broken: errors.New("no answer")}
	reconciler := &HeatingReconciler{Client: api, Heaters: outside}
	if err := api.Create(t.Context(), greenhouse); err != nil {
		t.Fatal(err)
	}
	call := func() error {
		_, err := reconciler.Reconcile(t.Context(), requestFor(greenhouse))
		return err
	}
	if err := call(); !errors.Is(err, outside.broken) {
		t.Errorf("Reconcile() with a broken heater: error = %v", err)
	}
	if err := api.Delete(t.Context(), greenhouse); err != nil {
		t.Fatal(err)
	}
	if err := call(); !errors.Is(err, outside.broken) {
		t.Errorf("Reconcile() with a broken heater: error = %v", err)
	}
	outside.broken = nil
	for range 2 { // The second call finds it gone.
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Get(t.Context(), outside.key, greenhouse); !apierrors.IsNotFound(err) {
		t.Errorf("reading a greenhouse that was deleted: %v", err)
	}
	with := " with [" + finalizer + "]"
	if want := []string{"on" + with, "off" + with, "off" + with}; !slices.Equal(outside.calls, want) {
		t.Errorf("the heater was turned %q, want %q", outside.calls, want)
	}
}

func TestGeneratedCodeIsCurrent(t *testing.T) {
	t.Parallel()
	repo := checkedOut(t)
	const name = "zz_generated.deepcopy.go"
	for _, api := range []string{"greenhouse/api/v1", "lighthouse/api/v1", "lighthouse/api/v1alpha1"} {
		want, err := os.ReadFile(filepath.Join(generate(t, repo, "object", api), name))
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join("..", api, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != string(want) {
			t.Errorf("%s/%s is stale: in scripts, run ../.cache/bin/controller-gen object paths=./authoring/examples/%s",
				api, name, api)
		}
	}
}

func TestValidatorNamesAllFreezingPlants(t *testing.T) {
	t.Parallel()
	cold := newGreenhouse("cold", 6, 20)
	cold.Spec.Plants = []string{"lemon", "cactus", "orchid", "fern"}
	_, err := Validator{}.ValidateCreate(t.Context(), cold)
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("want a status, got %v", err)
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	if want := []string{"spec.plants[0]", "spec.plants[2]"}; !slices.Equal(fields, want) || status.Status().Code != 422 {
		t.Errorf("refused with %d for %v, want 422 for %v", status.Status().Code, fields, want)
	}
	cold.Spec.MinCelsius, cold.Spec.Plants = -5, []string{"fern"}
	if _, err := (Validator{}).ValidateCreate(t.Context(), cold); err != nil {
		t.Errorf("an unknown plant is refused: %v", err)
	}
	cold.Spec.MinCelsius, cold.Spec.Plants = 16, []string{"lemon", "cactus", "orchid"}
	if _, err := (Validator{}).ValidateCreate(t.Context(), cold); err != nil {
		t.Errorf("a warm greenhouse is refused: %v", err)
	}
}

func TestCertificateIsRequested(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	proofs := acmetest.Site{}
	directory, trusting := acmetest.Start(t, proofs)
	chain, err := OrderCertificate(ctx, directory, trusting,
		func(path, proof string) { proofs[path] = proof }, "palms.example.test")
	if err != nil {
		t.Fatal(err)
	}
	if err := chain[0].VerifyHostname("palms.example.test"); err != nil {
		t.Error(err)
	}
	unproved := func(string, string) {}
	if _, err := OrderCertificate(ctx, directory, trusting, unproved, "palms.example.test"); err == nil ||
		!strings.Contains(err.Error(), "invalid") {
		t.Errorf("OrderCertificate() of a name without a proof: error = %v", err)
	}
}
