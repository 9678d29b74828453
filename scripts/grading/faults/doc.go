// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package faults proxies the requests of an operator to the API server and other services, logs them, and injects
// faults by a schedule: conflicts, refusals, lost answers, late watches, and SIGKILL before or after a certain write.
// It neither starts the operator nor judges it.
//
// A Schedule defines which fault is injected at which request. Schedules come from Sweep, Random and Mild, or are
// written by hand. The table in kinds.go describes each kind of fault. An Injector holds the proxies, counts requests,
// and injects the faults of the schedule with which it is armed. Without a schedule it passes on everything except
// streaming lists. It always refuses these, so that an operator behaves the same on all clusters.
package faults
