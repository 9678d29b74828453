// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"fmt"
	"time"

	"lva.io/operators/scripts/grading/report"
)

// story simulates a run of lab 03 moment by moment, so that its timeline resembles a real one: the operator's
// requests take some time, faults hit some of them, and checks follow each other.
type story struct {
	report.Report
	now float64
	// vary is the state from which the durations of requests are generated. It always starts with the same value.
	vary uint32
}

func newStory() *story {
	s := &story{vary: 7, now: 3.214}
	s.Report = report.Report{
		Lab: "03-finalizer", Title: "The finalizer",
		Submission: report.Submission{
			Dir: "labs/03-finalizer", Module: "lva.io/operators/labs/03-finalizer", Go: "1.26.0", ControllerRuntime: "v0.24.1",
		},
		Outcome: report.Graded, Started: time.Date(2026, 3, 9, 10, 15, 0, 123456789, time.UTC), Seed: 2718281828,
		Environment: report.Environment{Cluster: "embedded", Kubernetes: "v1.36.3", OS: "linux", Arch: "amd64", CPUs: 2},
		Steps: []report.Step{
			{Name: "build", Seconds: 1.204},
			{Name: "manifests", Seconds: 0.31},
			{Name: "cluster", Seconds: 2.81},
			{Name: "CRDs", Seconds: 0.052},
			{Name: "operator", Seconds: 0.35},
		},
	}
	s.operator("started")
	return s
}

// took returns a plausible duration of a request, in seconds.
func (s *story) took() float64 {
	s.vary = s.vary*1664525 + 1013904223
	return 0.0012 + float64(s.vary>>20)/4096*0.006
}

func (s *story) request(service, what string, code int, fault string) {
	took := s.took()
	switch fault {
	case "slow":
		took += 0.3
	case "no-answer":
		took = 1
	}
	s.Timeline = append(s.Timeline, report.Moment{
		At: s.now, Seconds: took, Service: service, What: what, Code: code, Fault: fault,
	})
	s.now += took + 0.004
}

// operator adds an event of the operator. After a start, the operator lists and watches.
func (s *story) operator(what string) {
	s.Timeline = append(s.Timeline, report.Moment{
		At: s.now, Service: report.ServiceOperator, What: "the operator was " + what,
	})
	s.now += 0.06
	if what == "started" {
		s.request(report.ServiceAPI, "update leases icecream.demo.lva.io", 200, "")
		s.request(report.ServiceAPI, "list icecreams", 200, "")
		s.Timeline = append(s.Timeline, report.Moment{
			At: s.now, Seconds: 2.4, Service: report.ServiceAPI, What: "watch icecreams", Code: 200,
		})
	}
}

// arrives adds the requests that give an icecream its finalizer, its ingredients and its status.
func (s *story) arrives(name string) {
	s.request(report.ServiceAPI, "update icecreams "+name, 200, "")
	s.request(report.ServiceFreezer, "put movements "+name+":1:out:topping:cream", 201, "")
	s.request(report.ServiceFreezer, "put movements "+name+":1:out:flavour:vanilla", 201, "")
	s.request(report.ServiceAPI, "update icecreams/status "+name, 200, "")
}

// leaves adds the requests that return everything and then remove the finalizer.
func (s *story) leaves(name string) {
	s.request(report.ServiceFreezer, "get owners "+name, 200, "")
	s.request(report.ServiceFreezer, "put movements "+name+":2:in:topping:cream", 201, "")
	s.request(report.ServiceFreezer, "put movements "+name+":2:in:flavour:vanilla", 201, "")
	s.request(report.ServiceAPI, "patch icecreams "+name, 200, "")
}

// check adds a check that passes while something happens.
func (s *story) check(id string, points int, title string, happens func()) *report.Check {
	began := s.now
	happens()
	s.now += 0.08
	s.Checks = append(s.Checks, report.Check{
		ID: id, Title: title, Status: report.Passed, Points: points, MaxPoints: points, At: began, Seconds: s.now - began,
		Lecture: "docs/lectures/03-finalizers.md#the-finalizer-comes-first",
	})
	s.now += 0.05
	return &s.Checks[len(s.Checks)-1]
}

func (s *story) end() report.Report {
	for _, check := range s.Checks {
		s.Score += check.Points
		s.MaxScore += check.MaxPoints
	}
	s.Seconds = s.now + 0.2
	return s.Report
}

// play simulates the whole run. If forgets is true, the operator removes its finalizer although the freezer did not
// answer.
func (s *story) play(forgets bool) {
	s.check("finalizer-added", 10, "An icecream gets the finalizer", func() { s.arrives("sundae") })
	s.check("finalizer-first", 10, "The finalizer is on the icecream before anything is taken", func() {
		s.request(report.ServiceAPI, "update icecreams gelato", 409, "conflict")
		s.request(report.ServiceAPI, "get icecreams gelato", 200, "")
		s.arrives("gelato")
	})
	s.check("returned", 20, "What was taken goes back before the icecream goes", func() {
		s.leaves("sundae")
		s.leaves("gelato")
	})
	if !forgets {
		down := s.check("freezer-down", 20, "It stays until all is back, however long the freezer is down", func() {
			s.arrives("sorbet")
			for range 4 {
				s.request(report.ServiceFreezer, "put movements sorbet:2:in:topping:cream", 503, "unavailable")
				s.request(report.ServiceAPI, "update icecreams/status sorbet", 200, "")
				s.now += 0.12
			}
			s.leaves("sorbet")
		})
		down.Measurements = []report.Measurement{{Name: "retries while the freezer was down", Value: 4}}
		answer := s.check("no-answer", 10, "A freezer that does not answer holds up only its own icecream", func() {
			s.arrives("spumoni")
			s.request(report.ServiceFreezer, "put movements spumoni:2:in:topping:cream", 0, "no-answer")
			s.leaves("spumoni")
		})
		answer.Measurements = []report.Measurement{
			{Name: "the longest call", Value: 1004.21, Unit: "ms"}, {Name: "gone after", Value: 1.13214, Unit: "s"},
		}
	} else {
		s.check("freezer-down", 20, "It stays until all is back, however long the freezer is down", func() {
			s.arrives("sorbet")
			s.request(report.ServiceFreezer, "put movements sorbet:2:in:topping:cream", 503, "unavailable")
			s.request(report.ServiceAPI, "patch icecreams sorbet", 200, "")
		})
		fail(&s.Report, "freezer-down", "while the freezer answers 503, sorbet keeps demo.lva.io/finalizer",
			"sorbet is gone; cream and vanilla are still out\nat the freezer, in the name of an owner that no longer exists",
			" 4.912s  PUT    freezer movements/sorbet:2:in:topping:cream  503  unavailable",
			" 4.921s  PATCH  icecreams/sorbet                             200  {\"metadata\":{\"finalizers\":[]}}")
		s.check("no-answer", 10, "A freezer that does not answer holds up only its own icecream", func() {})
		skip(&s.Report, "no-answer", "skipped: it needs freezer-down, which failed")
		s.Checks[len(s.Checks)-1].At = 0
	}
	s.check("killed-between", 10, "Killed between the freezer and the API server, it returns nothing twice", func() {
		s.arrives("parfait")
		s.request(report.ServiceFreezer, "put movements parfait:2:in:topping:cream", 201, "kill-after")
		s.operator("killed")
		s.now += 0.15
		s.operator("started")
		s.leaves("parfait")
	})
	bad := s.check("bad-day", 20, "All of this holds on a bad day", func() {
		for i, fault := range []string{"too-many-requests", "server-error", "slow", "lost-answer", "cut", "stale"} {
			name := fmt.Sprintf("cone-%d", i)
			code := map[string]int{"too-many-requests": 429, "server-error": 500, "lost-answer": 200}
			got, known := code[fault]
			if !known {
				got = 200
			}
			s.request(report.ServiceAPI, "update icecreams "+name, got, fault)
			s.arrives(name)
			s.leaves(name)
		}
	})
	bad.Measurements = []report.Measurement{{Name: "requests that a fault hit", Value: 6}}
}

func finalizerFull() report.Report {
	s := newStory()
	s.play(false)
	return s.end()
}

func finalizerFailed() report.Report {
	s := newStory()
	s.play(true)
	s.Notices = []string{"config/crd is not what the markers generate: run `make manifests` and commit it."}
	return s.end()
}
