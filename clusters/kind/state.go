// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/docker"
)

// Marker is the cluster's record of how it was created.
type Marker struct {
	// Profile and Hash are the name and the hash of its profile.
	Profile, Hash string
	// Images is "air-gap" or "registry".
	Images string
	// NodeImage is the reference of the image of its nodes.
	NodeImage string
	// Created is when it was created.
	Created time.Time
	// Tested describes the software with which the smoke test last passed, or is "".
	Tested string
}

// State is the state of a cluster.
type State int

// The states in which a cluster can be.
const (
	// Absent: the cluster has no container.
	Absent State = iota
	// Unfinished: a command of ours was interrupted while it created or removed the cluster.
	Unfinished
	// Stopped: the cluster was created, and one of its containers does not run.
	Stopped
	// Silent: the cluster was created and runs, but its API server does not answer.
	Silent
	// Foreign: the cluster runs, but we did not create it.
	Foreign
	// Made: the cluster runs, and its API server answers.
	Made
)

// Found is the result of Find.
type Found struct {
	State  State
	Nodes  []docker.Node
	Marker Marker
	// Err is the reason why the API server did not answer.
	Err error
}

// Find returns the state of the cluster.
func (c *Cluster) Find(ctx context.Context) (*Found, error) {
	nodes, err := docker.Containers(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	found := &Found{Nodes: nodes}
	if len(nodes) == 0 {
		return found, nil
	}
	_, err = os.Stat(filepath.Join(c.Folder, unfinishedFile))
	unfinished := err == nil
	for _, node := range nodes {
		if !node.Running {
			found.State = Stopped
			if unfinished {
				found.State = Unfinished
			}
			return found, nil
		}
	}
	if unfinished {
		found.State = Unfinished
		return found, nil
	}
	marker, err := c.marker(ctx)
	switch {
	case err == nil:
		found.State, found.Marker = Made, *marker
	case apierrors.IsNotFound(err):
		found.State = Foreign
	default:
		found.State, found.Err = Silent, err
	}
	return found, nil
}

func (c *Cluster) marker(ctx context.Context) (*Marker, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	object, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, markerName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data := object.Data
	marker := &Marker{
		Profile: data["profile"], Hash: data["hash"], Images: data["images"],
		NodeImage: data["nodeImage"], Tested: data["tested"],
	}
	marker.Created, _ = time.Parse(time.RFC3339, data["created"]) // an edit that can't be parsed loses the date
	return marker, nil
}

// Mark writes the marker, which completes the creation of the cluster.
func (c *Cluster) Mark(ctx context.Context, marker Marker) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: markerName, Namespace: metav1.NamespaceSystem},
		Data: map[string]string{
			"profile": marker.Profile, "hash": marker.Hash, "images": marker.Images, "nodeImage": marker.NodeImage,
			"created": marker.Created.UTC().Format(time.RFC3339), "tested": marker.Tested,
		},
	}
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("recording how the cluster %s was created: %w", c.Name, err)
	}
	return nil
}

// unfinished records that the cluster may be incomplete from here on.
func (c *Cluster) unfinished() error {
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return fmt.Errorf("creating the cluster's folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.Folder, unfinishedFile), nil, 0o644); err != nil {
		return fmt.Errorf("recording that the cluster is incomplete: %w", err)
	}
	return nil
}

// finished records that the cluster is complete.
func (c *Cluster) finished() error {
	if err := os.Remove(filepath.Join(c.Folder, unfinishedFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("recording that the cluster is complete: %w", err)
	}
	return nil
}
