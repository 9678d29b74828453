// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package stage is where a submission runs: a cluster, and the place where its operator is started, stopped and killed.
// Code that grades or runs one uses only the interface Stage.
//
// Below it are the places, local (a process of this machine) and pod (a Pod, by the submission's own deployment), and
// the clusters, own (one of the run's own, or one that is lent) and shared (one that is there, and that others use,
// too). A cluster and a place make a stage. It judges nothing.
package stage
