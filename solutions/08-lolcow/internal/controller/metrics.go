// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lolcowv1alpha1 "lva.io/operators/solutions/08-lolcow/api/v1alpha1"
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
	//lab:begin collect
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var lolcows lolcowv1alpha1.LolcowList
	if err := c.Reader.List(ctx, &lolcows); err != nil {
		metrics <- prometheus.NewInvalidMetric(objects, err)
		return
	}
	for _, condition := range []string{lolcowv1alpha1.Available, lolcowv1alpha1.Progressing, lolcowv1alpha1.Degraded} {
		var count int
		for _, lolcow := range lolcows.Items {
			if meta.IsStatusConditionTrue(lolcow.Status.Conditions, condition) {
				count++
			}
		}
		metrics <- prometheus.MustNewConstMetric(objects, prometheus.GaugeValue, float64(count), strings.ToLower(condition))
	}
	//lab:else
	// // TODO(lab): 8. list the Lolcows, and send three numbers: prometheus.MustNewConstMetric.
	//lab:end
}
