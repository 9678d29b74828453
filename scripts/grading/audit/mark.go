// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// Marker returns a function for SetDelayed that sends its requests to the API server of a configuration.
func Marker(config *rest.Config) (mark func(ctx context.Context, path string) error, err error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return func(ctx context.Context, path string) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			strings.TrimSuffix(config.Host, "/")+path, http.NoBody)
		if err != nil {
			return fmt.Errorf("requesting a mark in the audit log: %w", err)
		}
		answer, err := client.Do(request)
		if err != nil {
			return fmt.Errorf("requesting a mark in the audit log: %w", err)
		}
		if answer.StatusCode == http.StatusUnauthorized {
			err = fmt.Errorf("requesting a mark in the audit log: %s", answer.Status)
		}
		if closed := answer.Body.Close(); err == nil {
			err = closed
		}
		return err
	}, nil
}
