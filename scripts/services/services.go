// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"net/http"
	"slices"

	"lva.io/operators/scripts/services/cloud"
	"lva.io/operators/scripts/services/freezer"
)

// Service describes a server that operators of the labs call besides the API server.
type Service struct {
	// Name is its name in labs.yaml, in schedules of faults and in reports.
	Name string
	// Variable is the environment variable in which an operator finds its URL.
	Variable string
	// Address is the address at which it listens for an operator that is not graded, unless another program listens there.
	// It is fixed, so that a student can repeat a command.
	Address string
	// OverviewPath is the path that a person opens first. Contents names what the service keeps there as long as the
	// operator runs.
	OverviewPath, Contents string
	// New returns the handlers of a new service without any state: one for the operator, and one for the checks.
	New func() (forOperator, forChecks http.Handler)
	// Open returns the operator's handler of a service that keeps its state in a file.
	Open func(file string) (http.Handler, error)
}

var all = []Service{
	{
		Name: freezer.Service, Variable: freezer.Variable, Address: "127.0.0.1:8018",
		OverviewPath: "/v1/stock", Contents: "books",
		New: func() (forOperator, forChecks http.Handler) {
			one := freezer.New()
			return one, one
		},
		Open: func(file string) (http.Handler, error) { return freezer.Open(file) },
	},
	{
		Name: cloud.Service, Variable: cloud.Variable, Address: "127.0.0.1:8019",
		OverviewPath: "/v1/bill", Contents: "instances",
		New: func() (forOperator, forChecks http.Handler) {
			one := cloud.New()
			return one, one.Console()
		},
		Open: func(file string) (http.Handler, error) { return cloud.Open(file) },
	},
}

// All returns all services.
func All() []Service { return slices.Clone(all) }

// Named returns the services with these names. The schema of labs.yaml allows no others.
func Named(names []string) []Service {
	return slices.DeleteFunc(slices.Clone(all), func(s Service) bool { return !slices.Contains(names, s.Name) })
}
