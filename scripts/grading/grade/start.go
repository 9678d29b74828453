// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/report"
)

// podOnly matches the errors of an operator that can run only as a Pod, and holds a remedy for each.
// (k8s.io/client-go/rest, controller-runtime/pkg/leaderelection)
var podOnly = []struct {
	output *regexp.Regexp
	remedy string
}{
	{
		regexp.MustCompile(`unable to load in-cluster configuration`),
		"make it load its configuration from KUBECONFIG, as ctrl.GetConfigOrDie does",
	},
	{
		regexp.MustCompile(`unable to find leader election namespace`),
		"set LeaderElectionNamespace in main, or leave leader election off unless a flag asks for it",
	},
	{
		regexp.MustCompile(`open /var/run/secrets/kubernetes\.io/serviceaccount/`),
		"make it work without the files of a Pod's ServiceAccount",
	},
}

var (
	portTaken = regexp.MustCompile(`listen (?:tcp|udp)[46]? \S*:(\d+): bind: address already in use`)
	// commands begins the list in the usage of a program that has several. (github.com/spf13/cobra, github.com/urfave/cli)
	commands = regexp.MustCompile(`(?mi)^(?:available )?commands:\s*$`)
)

// notStarted is the verdict on an operator that ended, or did nothing, before it watched anything. ended describes
// how it ended. It is empty if the operator still runs after its patience.
func (o *operator) notStarted(log *audit.Log, ended string, patience time.Duration) *verdict {
	output := strings.Join(o.log.last(allLines), "\n")
	for _, only := range podOnly {
		if line := only.output.FindString(output); line != "" {
			return &verdict{outcome: report.Error, reason: fmt.Sprintf("the operator runs only as a Pod in a cluster "+
				"(it logged %q), but here it is a process on this machine: "+
				"grade it on a kind cluster, with --cluster kind, or %s", line, only.remedy)}
		}
	}
	if v := o.portTaken(); v != nil {
		return v
	}
	if o.awaitsLease(log) {
		return &verdict{outcome: report.NotStarted, reason: "it waits for leader election, " +
			"but its role does not allow it to use the Lease: " +
			"add the marker below, or leave leader election off unless a flag asks for it"}
	}
	switch {
	case ended == "":
		return &verdict{outcome: report.NotStarted, reason: fmt.Sprintf("it ran for %s without listing or watching anything "+
			"at the API server: does main start the manager, and is the controller set up with it?", patience)}
	case commands.MatchString(output):
		ended += ". It printed its commands, and was started without one: name it in the Deployment in config/manager " +
			"(args: [start]), or let the program start without a command"
	case strings.TrimSpace(output) == "":
		ended += ", and its log is empty: let main print why it ends (what is logged before ctrl.SetLogger is lost)"
	}
	return &verdict{
		outcome: report.NotStarted, reason: "it ended before it listed or watched anything at the API server: " + ended,
	}
}

// portTaken is the verdict on an operator that can't listen because another program on this machine uses the port. It
// is nil if no other program does.
func (o *operator) portTaken() *verdict {
	taken := portTaken.FindStringSubmatch(strings.Join(o.log.last(allLines), "\n"))
	if taken == nil || !o.launcher.PortInUse(taken[1]) {
		return nil
	}
	return &verdict{outcome: report.Error, reason: fmt.Sprintf("port %s, on which the operator listens, "+
		"is in use by another program on this machine: end that program (`ss -ltnp` shows it), "+
		"or read the port from a flag in main, such as --metrics-bind-address", taken[1])}
}

// awaitsLease reports whether Leases are all that the operator was forbidden.
func (o *operator) awaitsLease(log *audit.Log) bool {
	rights := audit.ForbiddenRights(log.Since(0, log.By(o.installed.User())))
	for _, right := range rights {
		if right.Resource != "leases" {
			return false
		}
	}
	return len(rights) > 0
}

// allLines is how many lines of the operator's log are searched for the reason why it did not start.
const allLines = 1000
