// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objects describes the gauge. Its label has three values, however many Lolcows there are: with the name of each in a
// label, Prometheus would have to keep a series for each Lolcow that there ever was.
var objects = prometheus.NewDesc("lolcow_objects",
	"Number of Lolcows whose condition of this type is True.", []string{"state"}, nil)

// Collector counts Lolcows at each scrape. A gauge that Reconcile counts up and down would be wrong after the first
// restart.
type Collector struct {
	// Reader is the manager's client: it reads from the cache, so that no scrape costs a request.
	Reader client.Reader
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) { descs <- objects }

// Collect implements prometheus.Collector. If the Lolcows can't be listed, it reports an error, which is not the same
// as 0.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	// TODO(lab): 8. list the Lolcows, and send three numbers: prometheus.MustNewConstMetric.
}
