// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/services"
)

// connection is what stands between the operator and all that it talks to, with the lab's services. In a lab without an
// operator it is empty.
type connection struct {
	gateway  stage.Gateway
	injector *faults.Injector
	// crash kills the operator and starts it again, once there is one.
	crash func() error
	// services are the URLs of the lab's services for checks, past the faults, by their names.
	services      map[string]string
	closeServices []func() error
}

// connect puts the injector of faults between the operator and all that it talks to, and starts the lab's services.
func (r *run) connect(on stage.Stage) (*connection, error) {
	c := &connection{services: map[string]string{}}
	if !r.Lab.Operator {
		return c, nil
	}
	c.injector = faults.New(func() error { return c.crash() })
	c.injector.Address, c.injector.AdvertiseAddress = on.Address(), on.AdvertiseAddress()
	cluster := on.Cluster()
	if recorder := cluster.Recorder; recorder != nil {
		c.injector.API = func(next http.RoundTripper) http.RoundTripper {
			return recorder.Transport(submission.User, r.Lab.Groups, next)
		}
	}
	c.gateway = stage.Gateway{Exchange: c.injector.Exchange, Refuse: c.injector.Refuse, Admit: c.injector.Admit}
	var err error
	if c.gateway.Host, c.gateway.CA, err = c.injector.ProxyAPI(cluster.Config); err != nil {
		return c, err
	}
	if err := c.reached(c.gateway.Host); err != nil {
		return c, err
	}
	for _, service := range services.Named(r.Lab.Services) {
		if c.services[service.Name], err = c.startService(service); err != nil {
			return c, err
		}
	}
	return c, nil
}

// reached notes that the operator must reach a URL.
func (c *connection) reached(address string) error {
	parsed, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("reading the address of a proxy: %w", err)
	}
	c.gateway.Reached = append(c.gateway.Reached, parsed.Host)
	return nil
}

// startService starts a service, and returns where the checks find it. The operator finds it in an environment
// variable, and comes to it through the injector; the checks come to what is for them, and past all faults.
func (c *connection) startService(service services.Service) (url string, err error) {
	forOperator, forChecks := service.New()
	address, err := c.injector.Proxy(service.Name, forOperator)
	if err != nil {
		return "", err
	}
	if err := c.reached(address); err != nil {
		return "", err
	}
	c.gateway.Environment = append(c.gateway.Environment, service.Variable+"="+address)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listening for the checks' requests to the %s: %w", service.Name, err)
	}
	// The operator finds the port if it looks for it: without these words no request gets past the faults.
	secret := "/" + rand.Text()
	server := &http.Server{Handler: http.StripPrefix(secret, forChecks), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	c.closeServices = append(c.closeServices, server.Close)
	return "http://" + listener.Addr().String() + secret, nil
}

// close ends what connect began. It has no clients any more.
func (c *connection) close() {
	if c.injector != nil {
		_ = c.injector.Close()
	}
	for _, end := range c.closeServices {
		_ = end()
	}
}

// takeTimeline takes what the operator asked for, and what befell it, into the report.
func (r *run) takeTimeline(c *connection) {
	if c.injector == nil {
		return
	}
	for _, entry := range c.injector.Log() {
		r.report.Timeline = append(r.report.Timeline, report.Moment{
			At: entry.Time.Sub(r.report.Started).Seconds(), Seconds: entry.Seconds, Service: entry.Service, What: entry.What(),
			Code: entry.Code, Fault: string(entry.Fault),
		})
	}
}
