// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package services holds the servers that operators of the labs call besides the API server, and their clients.
//
// These are the freezer of lab 03, the cloud of lab 11, the HTTP code that both share, and a client of ACME servers. A
// service is added here if it never calls an API server. The images of a cluster are in clusters/images, and
// scripts/grading/faults injects faults between an operator and a service.
package services
