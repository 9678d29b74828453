// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	logf "github.com/cert-manager/cert-manager/pkg/logs"
	utilfeature "github.com/cert-manager/cert-manager/pkg/util/feature"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
	"github.com/cert-manager/cert-manager/pkg/webhook/server"
	webhook "github.com/cert-manager/cert-manager/test/webhook"
	"github.com/spf13/pflag"
)

// runWebhook runs cert-manager's webhook, with its own flags. The code that creates the server is in an internal
// package. cert-manager's own test support, which can be imported, starts the same server at ports that it chooses
// itself, and lets its caller change that. It has to be called from a test, so runWebhook runs a test that lasts as
// long as the program.
func runWebhook(ctx context.Context, args []string) error {
	config, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	parsed := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	options.AddConfigFlags(parsed, config)
	if err := parsed.Parse(args); err != nil {
		return err
	}
	if !config.TLSConfig.DynamicConfigProvided() && !config.TLSConfig.FilesystemConfigProvided() {
		return fmt.Errorf("it needs a certificate: give --dynamic-serving-ca-secret-namespace, " +
			"--dynamic-serving-ca-secret-name and --dynamic-serving-dns-names, or --tls-cert-file and --tls-private-key-file")
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(config.FeatureGates); err != nil {
		return err
	}
	if err := logf.ValidateAndApply(&config.Logging); err != nil {
		return err
	}
	// A test has a temporary folder, even if it does not use it. The chart makes the image read-only, but shared memory is
	// always writable.
	if os.Getenv("TMPDIR") == "" {
		if err := os.Setenv("TMPDIR", "/dev/shm"); err != nil {
			return err
		}
	}
	os.Args = []string{"webhook", "-test.v", "-test.timeout=0"}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{
		Name: "webhook",
		F: func(t *testing.T) {
			_, stop := webhook.StartWebhookServer(t, args, func(s *server.Server) {
				s.ListenAddr = int(config.SecurePort)
				s.HealthzAddr = new(int(config.HealthzPort))
				s.MetricsListenAddress = config.MetricsListenAddress
			})
			<-ctx.Done()
			stop()
		},
	}}, nil, nil)
	return nil
}
