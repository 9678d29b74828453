// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package stage defines where a submission runs: a cluster, and the place where its operator is started, stopped and
// killed. Code that grades or runs a submission uses only the interface Stage.
//
// The packages below it implement the places, local (a process of this machine) and pod (a Pod, by the submission's own
// deployment), and the clusters, own (one of the run's own, or one that is lent) and shared (an existing one, which
// others use, too). A stage consists of a cluster and a place. It does not judge the submission.
package stage
