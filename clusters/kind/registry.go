// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// registryTime is how long registries have to answer. One that needs longer is no use to a class either.
const registryTime = 3 * time.Second

// registries are those of all images that a cluster would pull.
var registries = []string{"https://registry-1.docker.io/v2/", "https://registry.k8s.io/v2/", "https://quay.io/v2/"}

// RegistriesAnswer asks all registries at once. It returns the error of the first one that does not answer as a
// registry does.
func RegistriesAnswer(ctx context.Context) error { return answer(ctx, registries) }

func answer(ctx context.Context, all []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, registryTime, fmt.Errorf("it did not answer within %s", registryTime))
	defer cancel()
	answers := make(chan error, len(all))
	for _, registry := range all {
		go func() { answers <- ask(ctx, registry) }()
	}
	for range all {
		if err := <-answers; err != nil {
			return err
		}
	}
	return nil
}

// ask expects one of the two answers that the specification of registries allows for the path /v2/: OK or Unauthorized.
func ask(ctx context.Context, registry string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, registry, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("asking %s: %w", registry, unwrapped(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusUnauthorized {
		return fmt.Errorf("asking %s: it answered %s", registry, response.Status)
	}
	return nil
}

// unwrapped leaves out the method and address that net/http puts before an error, because our message already has them.
func unwrapped(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}
