// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"lva.io/operators/scripts/faults"
	"lva.io/operators/scripts/freezer"
	"lva.io/operators/scripts/report"
	"lva.io/operators/scripts/submission"
)

// connect puts the injector of faults between the operator and all that it talks to, and starts the lab's services. A lab
// without an operator has neither.
func (r *run) connect(ctx context.Context) error {
	r.access = submission.Access{File: r.kubeconfig(), Shared: r.cluster.Shared}
	if r.cluster.Installer != nil {
		account, err := r.cluster.Installer(ctx, r.Lab.Groups)
		if err != nil {
			return err
		}
		r.account, r.access.Made, r.access.Groups = account, account.Own, r.Lab.Groups
	}
	if !r.Lab.Operator {
		return nil
	}
	r.injector = faults.New(func() error { return r.operator.crash() })
	if recorder := r.cluster.Recorder; recorder != nil {
		r.injector.API = func(next http.RoundTripper) http.RoundTripper { return recorder.Transport(r.user, r.Lab.Groups, next) }
	}
	if r.cluster.Pods != nil {
		r.injector.Address = r.cluster.Pods.Gateway
	}
	r.access.Exchange = r.injector.Exchange
	var err error
	if r.access.Host, r.access.CA, err = r.injector.ProxyAPI(r.cluster.Config); err != nil {
		return err
	}
	if r.cluster.Pods != nil {
		if err := r.cluster.Pods.reaches(ctx, r.access.Host); err != nil {
			return err
		}
	}
	if slices.Contains(r.Lab.Services, freezer.Service) {
		return r.startFreezer()
	}
	return nil
}

// startFreezer starts the freezer: the operator comes to it through the injector, the checks do not.
func (r *run) startFreezer() error {
	handler := freezer.New()
	url, err := r.injector.Proxy(freezer.Service, handler)
	if err != nil {
		return err
	}
	r.environment = append(r.environment, freezer.Variable+"="+url)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for the checks' requests to the freezer: %w", err)
	}
	// The operator finds the port if it looks for it: without these words nobody gets past the faults.
	secret := "/" + rand.Text()
	server := &http.Server{Handler: http.StripPrefix(secret, handler), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	r.closeFreezer = server.Close
	r.freezer = "http://" + listener.Addr().String() + secret
	return nil
}

// disconnect ends what connect began. Nobody talks to it any more.
func (r *run) disconnect() {
	if r.injector == nil {
		return
	}
	r.takeTimeline()
	_ = r.injector.Close()
	if r.scripts != nil {
		_ = r.scripts.Close()
	}
	if r.closeFreezer != nil {
		_ = r.closeFreezer()
	}
}

// takeTimeline takes what the operator asked for, and what befell it, into the report.
func (r *run) takeTimeline() {
	for _, entry := range r.injector.Log() {
		r.report.Timeline = append(r.report.Timeline, report.Moment{
			At: entry.Time.Sub(r.report.Started).Seconds(), Seconds: entry.Seconds, Service: entry.Service, What: entry.What(),
			Code: entry.Code, Fault: string(entry.Fault),
		})
	}
}

// serveWebhooks lets the operator have a webhook server, also in labs that are not about webhooks: without a certificate
// its manager would not start. Where it insists on a port that another grading uses, that takes its time.
func (r *run) serveWebhooks(ctx context.Context, manifests *submission.Manifests) (end func() error, err error) {
	const name = "prepare the webhooks"
	r.workshop.Waits = func(reason string) { r.View.StepProgress(name, reason) }
	if !r.Lab.Webhooks {
		// Nobody has heard of them in such a lab: they are spoken of only if they take time.
		var began time.Time
		r.workshop.Waits = func(reason string) {
			if began.IsZero() {
				began = time.Now()
				r.View.StepStarted(name)
			}
			r.View.StepProgress(name, reason)
		}
		end, err = r.workshop.PrepareWebhooks(ctx, manifests)
		if !began.IsZero() {
			r.View.StepDone(name, time.Since(began), "")
		}
		return end, asVerdict(err, report.NotGenerated)
	}
	err = r.step(ctx, name, func(ctx context.Context) (_ string, err error) {
		if r.cluster.Way == nil {
			return "", r.cluster.NoWay
		}
		end, err = r.workshop.ServeWebhooks(ctx, r.installer(), r.access, r.cluster.Way, manifests)
		return "", asVerdict(err, report.NotGenerated)
	})
	return end, err
}

// listenTimeout is how long the operator's webhooks may take until they listen. Those of a submission without a webhook
// server never do: that is for the checks to find.
const listenTimeout = 3 * time.Second

func (r *run) awaitWebhooks(ctx context.Context) error {
	listening, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	if r.deployment != nil {
		return r.deployment.awaitReady(ctx)
	}
	if err := r.workshop.WebhooksListen(listening); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}
