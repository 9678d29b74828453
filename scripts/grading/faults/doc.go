// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package faults stands between an operator and the services that it talks to, logs what it asks for, and makes bad
// days out of a schedule: conflicts, refusals, lost answers, late watches, and SIGKILL before or after a certain write.
// It neither starts the operator nor judges it.
//
// A Schedule says what is to happen at which request; schedules come from Sweep, Random and Mild, or are written by
// hand. The table in kinds.go says what each kind of fault is and does. An Injector holds the proxies, counts requests,
// and makes the faults of the schedule with which it is armed. Without a schedule it passes everything on; only a
// streaming list is refused, so that an operator fares alike on all clusters.
package faults
