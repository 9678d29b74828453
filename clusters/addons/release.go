// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/images"
)

const (
	// helmTimeout limits what Helm itself waits for: hooks and deletions. This package itself waits until an add-on is
	// usable.
	helmTimeout = 2 * time.Minute
	// history is how many revisions of a release are kept.
	history = 3
)

// helm is one release in one cluster.
type helm struct {
	target    Target
	name      string
	namespace string
	access    *rest.Config
	config    *action.Configuration
	client    kubernetes.Interface
}

func newHelm(target Target, name, namespace string) (*helm, error) {
	getter := newGetter(target.Config, namespace)
	client, err := kubernetes.NewForConfig(getter.config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", name, err)
	}
	config := new(action.Configuration)
	// Helm's own log names each object that it looks at, which is too much to read.
	if err := config.Init(getter, namespace, "secret", func(string, ...any) {}); err != nil {
		return nil, fmt.Errorf("preparing Helm for %s: %w", name, err)
	}
	return &helm{
		target: target, name: name, namespace: namespace, access: getter.config,
		config: config, client: client,
	}, nil
}

// loadChart reads a chart.
func loadChart(source images.Chart) (*chart.Chart, error) {
	loaded, err := loader.Load(source.Path)
	if err != nil {
		return nil, fmt.Errorf("reading the chart %s: %w", source.Path, err)
	}
	return loaded, nil
}

// mergeValues reads Helm values. Later files override earlier ones.
func mergeValues(files ...[]byte) (map[string]any, error) {
	merged := map[string]any{}
	for _, content := range files {
		values := map[string]any{}
		if err := yaml.UnmarshalStrict(content, &values); err != nil {
			return nil, fmt.Errorf("reading Helm values: %w", err)
		}
		merged = chartutil.CoalesceTables(values, merged)
	}
	return merged, nil
}

// last returns the newest revision of the release, or nil if there is none.
func (h *helm) last() (*release.Release, error) {
	last, err := h.config.Releases.Last(h.name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the release %s: %w", h.name, err)
	}
	return last, nil
}

// deployed returns the newest revision that was applied completely, or nil if there is none. That can also be a
// revision that was superseded by one that never completed, because Helm writes the two records one after the other,
// and may have been killed in between.
func (h *helm) deployed() (*release.Release, error) {
	revisions, err := h.config.Releases.History(h.name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the release %s: %w", h.name, err)
	}
	slices.SortFunc(revisions, func(a, b *release.Release) int { return b.Version - a.Version })
	for _, status := range []release.Status{release.StatusDeployed, release.StatusSuperseded} {
		for _, revision := range revisions {
			if revision.Info.Status == status {
				return revision, nil
			}
		}
	}
	return nil, nil
}

// ensure installs or upgrades the release to this chart with these values. It changes nothing if the cluster already
// has them.
func (h *helm) ensure(ctx context.Context, wanted *chart.Chart, values map[string]any, report func(string)) error {
	// This comes first, because all objects may still exist in a namespace that is being deleted.
	if err := namespaceReady(ctx, h.client, h.namespace, h.name, report); err != nil {
		return err
	}
	last, err := h.last()
	if err != nil {
		return err
	}
	if last != nil && last.Info.Status == release.StatusDeployed {
		missing, err := h.missing(last)
		if err != nil {
			return err
		}
		if missing == "" && same(last, wanted, values) {
			return nil
		}
		if missing != "" {
			report(fmt.Sprintf("%s is missing: restoring it", missing))
		}
	}
	last, err = h.repairRecords(last, report)
	if err != nil {
		return err
	}
	if last == nil {
		report(fmt.Sprintf("installing the chart of %s %s", h.name, wanted.Metadata.Version))
		install := action.NewInstall(h.config)
		install.ReleaseName, install.Namespace = h.name, h.namespace
		install.Timeout = helmTimeout
		install.Labels = map[string]string{createdBy: h.name}
		install.Replace = true // also where `helm uninstall --keep-history` left a record
		install.TakeOwnership = !h.target.Shared
		if _, err := install.RunWithContext(ctx, wanted, values); err != nil {
			return fmt.Errorf("installing the chart of %s: %w", h.name, err)
		}
		return nil
	}
	report(fmt.Sprintf("upgrading %s from chart %s to %s", h.name, last.Chart.Metadata.Version, wanted.Metadata.Version))
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.Timeout, upgrade.MaxHistory = h.namespace, helmTimeout, history
	upgrade.Labels = map[string]string{createdBy: h.name}
	upgrade.ResetValues = true // only these values count, and not those of an earlier revision
	upgrade.TakeOwnership = !h.target.Shared
	if _, err := upgrade.RunWithContext(ctx, h.name, wanted, values); err != nil {
		return fmt.Errorf("upgrading the chart of %s: %w", h.name, err)
	}
	return nil
}

// same reports whether a revision was created from this chart and these values.
func same(revision *release.Release, wanted *chart.Chart, values map[string]any) bool {
	if revision.Chart.Metadata.Version != wanted.Metadata.Version ||
		revision.Chart.Metadata.AppVersion != wanted.Metadata.AppVersion {
		return false
	}
	// The values are compared as JSON, in which a revision is stored, because 1 and 1.0 are the same number there.
	have, err := json.Marshal(revision.Config)
	if err != nil {
		return false
	}
	want, err := json.Marshal(values)
	return err == nil && bytes.Equal(have, want)
}

// missing names an object of a revision that is not in the cluster.
func (h *helm) missing(revision *release.Release) (string, error) {
	objects, err := h.config.KubeClient.Build(bytes.NewBufferString(revision.Manifest), false)
	if err != nil {
		// For example, the cluster no longer has a kind of which the manifest has objects.
		return fmt.Sprintf("something of %s", h.name), nil //nolint:nilerr // what is missing is put back, or that fails and says why
	}
	for _, object := range objects {
		if err := object.Get(); apierrors.IsNotFound(err) {
			return fmt.Sprintf("%s %s", object.Mapping.GroupVersionKind.Kind, object.Name), nil
		} else if err != nil {
			return "", fmt.Errorf("looking for %s %s of %s: %w", object.Mapping.GroupVersionKind.Kind, object.Name, h.name, err)
		}
	}
	return "", nil
}

// repairRecords repairs the release's records after an install, upgrade or uninstall that did not complete, so that the
// next operation is possible. It returns the revision from which to upgrade, or nil if the release has to be installed.
//
// Helm itself refuses to continue: install fails with "cannot re-use a name that is still in use", and upgrade with
// "another operation is in progress". Helm can't know that the other operation is dead. We know it, because every
// installer of add-ons holds the cluster's lock.
func (h *helm) repairRecords(last *release.Release, report func(string)) (*release.Release, error) {
	if last == nil {
		return nil, nil
	}
	status := last.Info.Status
	switch {
	case status == release.StatusDeployed:
		return last, nil
	case status == release.StatusUninstalled:
		return nil, nil
	case status == release.StatusUninstalling:
		report(fmt.Sprintf("an earlier uninstall of %s was interrupted: finishing it", h.name))
		return nil, h.uninstall()
	case status.IsPending():
		report(fmt.Sprintf("an earlier %s of %s was interrupted: continuing it",
			strings.TrimPrefix(string(status), "pending-"), h.name))
		last.SetStatus(release.StatusFailed, "Interrupted; recovered by Operator Labs")
		if err := h.config.Releases.Update(last); err != nil {
			return nil, fmt.Errorf("recording that revision %d of %s was interrupted: %w", last.Version, h.name, err)
		}
	case status == release.StatusFailed:
		report(fmt.Sprintf("an earlier attempt at %s failed (%s): trying again", h.name, oneLine(last.Info.Description)))
	}
	good, err := h.deployed()
	if err != nil {
		return nil, err
	}
	if good == nil {
		// No revision ever worked. The records are deleted. The objects stay, because they have the release's name, and the
		// next install adopts them.
		return nil, h.forget()
	}
	if good.Info.Status == release.StatusSuperseded {
		good.SetStatus(release.StatusDeployed, "Deployed again, because the upgrade that superseded it was interrupted")
		if err := h.config.Releases.Update(good); err != nil {
			return nil, fmt.Errorf("recording which revision of %s is deployed: %w", h.name, err)
		}
	}
	return good, nil
}

// forget deletes the release's records, and none of its objects.
func (h *helm) forget() error {
	revisions, err := h.config.Releases.History(h.name)
	if err != nil {
		return fmt.Errorf("reading the release %s: %w", h.name, err)
	}
	for _, revision := range revisions {
		if _, err := h.config.Releases.Delete(h.name, revision.Version); err != nil {
			return fmt.Errorf("deleting the record of revision %d of %s: %w", revision.Version, h.name, err)
		}
	}
	return nil
}

// uninstall deletes the objects of the release. It is no error if there is no release.
func (h *helm) uninstall() error {
	uninstall := action.NewUninstall(h.config)
	uninstall.Timeout = helmTimeout
	uninstall.IgnoreNotFound = true
	uninstall.DeletionPropagation = string(metav1.DeletePropagationBackground)
	if _, err := uninstall.Run(h.name); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("uninstalling %s: %w", h.name, err)
	}
	return nil
}

// owns reports whether an object is the release's. It is if it has the release's name and, on another user's cluster,
// our label, too.
func (h *helm) owns(object metav1.Object) bool {
	annotations := object.GetAnnotations()
	return annotations[releaseName] == h.name && annotations[releaseNamespace] == h.namespace &&
		(!h.target.Shared || object.GetLabels()[createdBy] != "")
}

func oneLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if r := []rune(text); len(r) > 120 {
		text = string(r[:120]) + "…"
	}
	return text
}
