// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"lva.io/operators/clusters/docker"
)

// explainTime is how long an explanation may take. A machine on which nothing works any more gives none.
const explainTime = 15 * time.Second

// known are problems of kind's users, by the lines that they cause in the logs
// (https://kind.sigs.k8s.io/docs/user/known-issues).
var known = []struct {
	sign *regexp.Regexp
	fix  string
}{
	{
		regexp.MustCompile(`(?i)too many open files|inotify_init|inotify instance|inotify watch`),
		"this machine's inotify limits are too low: " + inotifyFix,
	},
	{
		regexp.MustCompile(`(?i)no space left on device`),
		"Docker's disk is full: `docker system df` shows with what, `docker system prune` removes unused data",
	},
	{
		regexp.MustCompile(`(?i)port is already allocated|address already in use`),
		"a port that the profile asks for is taken: end the program that has it, or change the port in clusters/config/kind",
	},
	{
		regexp.MustCompile(`(?i)cgroup v1 support|kubelet is configured to not run on a host using cgroup v1`),
		"Kubernetes refuses this machine's cgroup v1: " +
			"put failCgroupV1: false into a KubeletConfiguration of the profile's kubeadmConfigPatches",
	},
	{
		regexp.MustCompile(`(?i)unable to apply caps: operation not permitted`),
		"this machine's root lacks a capability that privileged containers are given: " +
			"`cluster engine start` starts an engine that knows of it",
	},
	{
		regexp.MustCompile(`(?i)out of memory|oom-kill|cannot allocate memory`),
		"there is too little memory: end other programs or clusters, or take the profile student",
	},
	{
		regexp.MustCompile(`(?i)no such image|pull access denied|failed to pull image`),
		"the node image is not there and no registry has it: with --air-gap it is built",
	},
}

// hint returns the fix for a known problem in a text, or "".
func hint(text string) string {
	for _, problem := range known {
		if problem.sign.MatchString(text) {
			return problem.fix
		}
	}
	return ""
}

// explained adds to an error the output of the command in it, the explanation of the nodes, and what to do if that is
// known.
func (c *Cluster) explained(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return err // the user canceled it
	}
	text := err.Error()
	if output := commandOutput(err); output != text {
		text += "\n" + indent(output)
	}
	text += c.Explain(ctx)
	if fix := hint(text); fix != "" {
		text += "\n" + fix
	}
	return fmt.Errorf("%w%s", err, strings.TrimPrefix(text, err.Error()))
}

// Explain describes why the nodes do not work: the state of their containers, the kubelet's last errors, containers
// that do not run, and the last log lines of a node that has ended. It uses ctx's values but ignores its end, because
// it is called when a time is up.
func (c *Cluster) Explain(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	nodes, err := docker.Containers(ctx, c.Name)
	if err != nil {
		return ""
	}
	var out strings.Builder
	for _, node := range nodes {
		fmt.Fprintf(&out, "\n  node %s: %s", node.Name, node.Status)
		if !node.Running {
			c.lines(&out, "the end of its log", func(w *bytes.Buffer) error {
				return docker.Run(ctx, nil, w, "logs", "--tail=10", node.Name)
			})
			continue
		}
		c.lines(&out, "kubelet", func(w *bytes.Buffer) error {
			return docker.Exec(ctx, node.Name, nil, w, "sh", "-c",
				`journalctl --unit=kubelet --no-pager --output=cat --lines=200 `+
					`| grep -E '^[EF][0-9]|"command failed"|^Error' | tail -n 5`)
		})
		c.lines(&out, "containers that do not run", func(w *bytes.Buffer) error {
			return docker.Exec(ctx, node.Name, nil, w, "sh", "-c",
				`crictl ps --all 2>/dev/null | grep -v Running | tail -n +2 | tail -n 5`)
		})
	}
	return out.String()
}

func (c *Cluster) lines(out *strings.Builder, what string, read func(*bytes.Buffer) error) {
	var content bytes.Buffer
	if err := read(&content); err != nil && content.Len() == 0 {
		return // grep found nothing, or the node can't even run it
	}
	if text := strings.TrimSpace(content.String()); text != "" {
		fmt.Fprintf(out, "\n    %s:\n%s", what, indent(indent(indent(text))))
	}
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}
