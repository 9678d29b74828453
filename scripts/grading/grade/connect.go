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

// connection holds the proxies between the operator and the servers that it talks to, and the lab's services. It is
// empty in a lab without an operator.
type connection struct {
	gateway  stage.Gateway
	injector *faults.Injector
	// crash kills the operator and starts it again, as soon as there is an operator.
	crash func() error
	// services are the URLs, by name, at which checks reach the lab's services without faults.
	services      map[string]string
	closeServices []func() error
}

// connect puts the fault injector between the operator and the servers that it talks to, and starts the lab's
// services.
func (r *run) connect(st stage.Stage) (*connection, error) {
	c := &connection{services: map[string]string{}}
	if !r.Lab.Operator {
		return c, nil
	}
	c.injector = faults.New(func() error { return c.crash() })
	c.injector.Address, c.injector.AdvertiseAddress = st.Address(), st.AdvertiseAddress()
	cluster := st.Cluster()
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
	if err := c.allowHost(c.gateway.Host); err != nil {
		return c, err
	}
	for _, service := range services.Named(r.Lab.Services) {
		if c.services[service.Name], err = c.startService(service); err != nil {
			return c, err
		}
	}
	return c, nil
}

// allowHost adds the host of a URL to the addresses that the operator must reach.
func (c *connection) allowHost(address string) error {
	parsed, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("reading the address of a proxy: %w", err)
	}
	c.gateway.Addresses = append(c.gateway.Addresses, parsed.Host)
	return nil
}

// startService starts a service, and returns the URL for the checks. The operator gets its URL in an environment
// variable and reaches the service through the injector. The checks reach their own handler of the service, without
// faults.
func (c *connection) startService(service services.Service) (url string, err error) {
	forOperator, forChecks := service.New()
	address, err := c.injector.Proxy(service.Name, forOperator)
	if err != nil {
		return "", err
	}
	if err := c.allowHost(address); err != nil {
		return "", err
	}
	c.gateway.Environment = append(c.gateway.Environment, service.Variable+"="+address)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listening for the checks' requests to the %s: %w", service.Name, err)
	}
	// An operator that scans ports can find this one. Without the secret path, it can't bypass the faults.
	secret := "/" + rand.Text()
	server := &http.Server{Handler: http.StripPrefix(secret, forChecks), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	c.closeServices = append(c.closeServices, server.Close)
	return "http://" + listener.Addr().String() + secret, nil
}

// close closes what connect opened. Its clients have already ended.
func (c *connection) close() {
	if c.injector != nil {
		_ = c.injector.Close()
	}
	for _, end := range c.closeServices {
		_ = end()
	}
}

// takeTimeline adds the operator's requests, and the faults that hit it, to the report.
func (r *run) takeTimeline(c *connection) {
	if c.injector == nil {
		return
	}
	for _, entry := range c.injector.Log() {
		r.report.Timeline = append(r.report.Timeline, report.Moment{
			At: entry.Time.Sub(r.report.Started).Seconds(), Seconds: entry.Seconds,
			Service: entry.Service, What: entry.Summary(),
			Code: entry.Code, Fault: string(entry.Fault),
		})
	}
}
