// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package state

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// unreadSize is a size in bytes at which the API server does not read a request to its end.
	unreadSize = 4 << 20
	// resolution is the accuracy of a limit, in bytes.
	resolution = 1 << 10
	// refusalLength is the maximum length of a recorded refusal, in characters. Some refusals repeat the object.
	refusalLength = 300
)

// store tries to store a text of a size, and deletes it again.
type store func(ctx context.Context, size int) error

// limits finds the largest objects.
func (e *experiment) limits(ctx context.Context) (all []Limit, err error) {
	for _, kind := range []struct {
		name string
		store
	}{
		{"Entry, a custom resource", e.storeEntry},
		{"ConfigMap", e.storeConfigMap},
	} {
		e.Progress("look for the largest object", len(all), 2)
		limit, err := largest(ctx, kind.store)
		if err != nil {
			return nil, fmt.Errorf("looking for the largest %s: %w", kind.name, err)
		}
		limit.Kind = kind.name
		all = append(all, limit)
	}
	return all, nil
}

// largest searches for a limit. It halves the distance between an accepted and a refused size until it is small.
func largest(ctx context.Context, try store) (limit Limit, err error) {
	accepted, refused := resolution, unreadSize
	if limit.FarRefusal, err = refusal(try(ctx, refused)); err != nil {
		return limit, err
	}
	if limit.FarRefusal == "" {
		return limit, errors.New("even 4 MiB are accepted")
	}
	limit.Refusal = limit.FarRefusal
	for refused-accepted > resolution {
		size := (accepted + refused) / 2
		message, err := refusal(try(ctx, size))
		if err != nil {
			return limit, err
		}
		if message == "" {
			accepted = size
		} else {
			refused, limit.Refusal = size, message
		}
	}
	limit.Bytes = accepted
	return limit, nil
}

// refusal returns the API server's message about an object that is too large. Any other error is an error of the
// experiment.
func refusal(err error) (message string, other error) {
	switch {
	case err == nil:
		return "", nil
	// The first two are the API server's own limits, the others those of etcd and of its client.
	case apierrors.IsRequestEntityTooLargeError(err), apierrors.IsInvalid(err),
		strings.Contains(err.Error(), "request is too large"), strings.Contains(err.Error(), "larger than max"):
		text := []rune(err.Error())
		return string(text[:min(len(text), refusalLength)]), nil
	}
	return "", err
}

func (e *experiment) storeEntry(ctx context.Context, size int) error {
	const name = "large"
	if _, err := e.entries().Create(ctx, entry(name, size), metav1.CreateOptions{}); err != nil {
		return err
	}
	return e.entries().Delete(ctx, name, metav1.DeleteOptions{})
}

func (e *experiment) storeConfigMap(ctx context.Context, size int) error {
	configMaps := e.typed.CoreV1().ConfigMaps(namespace)
	large := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "large"},
		Data:       map[string]string{"text": strings.Repeat("x", size)},
	}
	if _, err := configMaps.Create(ctx, large, metav1.CreateOptions{}); err != nil {
		return err
	}
	return configMaps.Delete(ctx, large.Name, metav1.DeleteOptions{})
}
