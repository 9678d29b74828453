// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// slowAnswer is how long an API server on an overloaded machine takes to report that it is ready. Otherwise it takes
// a few milliseconds.
const slowAnswer = 2 * time.Second

// tooBusy is the verdict on a machine that left an operator no chance to begin within its patience: its threads or the
// grader had no processor, or its API server did not answer. Points would then measure the machine. It is nil if the
// operator had its chance.
func (o *operator) tooBusy(patience time.Duration) *verdict {
	if o.machine.wasCut() {
		return overloaded(fmt.Sprintf("in %s the grader got less than 1/%d of the processor time that it needed",
			longestWait*patience, longestWait))
	}
	if used := o.usage(); starved(used, patience) {
		return overloaded(fmt.Sprintf("in %s the operator ran for %.1f s, and its threads waited for a processor for %.0f s",
			patience, used.CPU, used.Waited))
	}
	if took, err := answers(o.cluster.Config, 2*slowAnswer); err != nil || took > slowAnswer {
		return overloaded(fmt.Sprintf("the API server took %s to report that it is ready", took.Round(time.Second/10)))
	}
	return nil
}

func overloaded(observed string) *verdict {
	return &verdict{outcome: report.Error, machine: true, reason: "this machine was too busy to tell " +
		"whether the operator starts: " + observed + ". End other programs, and grade it again"}
}

// starved reports whether a program with this usage since its start had no processor. A program that hangs does not
// wait for a processor. A program in an endless loop gets a processor, although it waits for it, too.
func starved(used protocol.Usage, patience time.Duration) bool {
	return used.Known && used.Waited >= patience.Seconds()/4 && used.CPU < patience.Seconds()/10
}

// answers measures how long an API server takes to report whether it is ready, up to a limit.
func answers(config *rest.Config, limit time.Duration) (took time.Duration, err error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+"/readyz", nil)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	response, err := client.Do(request)
	took = time.Since(began)
	if err != nil {
		return took, err
	}
	return took, response.Body.Close()
}
