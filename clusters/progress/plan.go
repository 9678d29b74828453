// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package progress

import (
	"fmt"
	"math"
	"os"
	"strings"
	"time"
)

// Units of a plan's progress: modules are downloaded, then packages are compiled, then the program is linked.
const (
	Modules  = "modules"
	Packages = "packages"
)

// Work is one program of a plan, with the time that its build takes on the machine of docs/benchmarks.md if only the
// works before it were downloaded and compiled.
type Work struct {
	// What names what is built, such as "the lab command".
	What string
	// Modules are downloaded within Download, Packages compiled within Compile. Linking takes Link.
	Modules, Packages       int
	Download, Compile, Link time.Duration
}

// Plan shows the progress of several works, one after the other: the number of the current one, and how long all of
// them will still take. It begins with the figures of the works, and adjusts them to the progress so far. Only one
// goroutine may use a Plan, but several may use its bars.
type Plan struct {
	out     *os.File
	works   []Work
	started int

	// missing and stale are the shares of modules and packages that the last work had to download and compile.
	missing, stale float64
	// network and processor are the factors by which downloading and compiling take longer here than in the figures.
	network, processor float64
}

// minAnnounced is the minimum length of a plan that is announced before it begins.
const minAnnounced = 10 * time.Second

// NewPlan announces the works, unless they take only seconds.
func NewPlan(out *os.File, works ...Work) *Plan {
	p := &Plan{out: out, works: works, missing: 1, stale: 1, network: 1, processor: 1}
	if all := p.ahead(works, p.processor); all >= minAnnounced {
		var names []string
		for _, work := range works {
			names = append(names, work.What)
		}
		fmt.Fprintf(out, "Building once: %s. This takes about %s if none of it was built here before.\n",
			strings.Join(names, ", "), approximate(all))
	}
	return p
}

// Next begins the next work. Its bar must be ended before the next call.
func (p *Plan) Next() *Bar {
	work := p.works[p.started]
	p.started++
	what := "build " + work.What
	if len(p.works) > 1 {
		what = fmt.Sprintf("%d of %d: %s", p.started, len(p.works), what)
	}
	return start(p.out, what, &estimate{plan: p, work: work})
}

// ahead returns how long works take that have not begun, on a processor that is slower by a factor than in the figures.
func (p *Plan) ahead(works []Work, processor float64) (all time.Duration) {
	for _, work := range works {
		all += scale(work.Download, p.missing*p.network) +
			scale(work.Compile, p.stale*processor) +
			scale(work.Link, processor)
	}
	return all
}

// estimate is what the bar of a work knows about its duration.
type estimate struct {
	plan *Plan
	work Work

	downloaded          int
	compiling, compiled time.Time // when that phase began and ended
	started             time.Time
}

// note records the progress of the work.
func (e *estimate) note(unit string, done, total int, now time.Time) {
	switch {
	case unit == Modules:
		e.downloaded = done
	case unit == Packages && e.compiling.IsZero():
		e.compiling = now
		e.learnModules(now)
		if e.work.Packages > 0 {
			e.plan.stale = share(total, e.work.Packages)
		}
		if total == 0 {
			e.compiled = now
		}
	case unit == Packages && done == total && e.compiled.IsZero():
		e.compiled = now
		// A few packages are not enough to judge a machine.
		const enough = 20
		if usual := scale(e.work.Compile, ratio(total, e.work.Packages)); total >= enough && usual > 0 {
			e.plan.processor = within(float64(now.Sub(e.compiling)) / float64(usual))
		}
	}
}

func (e *estimate) learnModules(now time.Time) {
	if e.work.Modules == 0 {
		return
	}
	e.plan.missing = share(e.downloaded, e.work.Modules)
	const enough = 10
	if usual := scale(e.work.Download, ratio(e.downloaded, e.work.Modules)); e.downloaded >= enough && usual > 0 {
		e.plan.network = within(float64(now.Sub(e.started)) / float64(usual))
	}
}

// left returns how long this work and those after it will take.
func (e *estimate) left(done, total int, now time.Time) time.Duration {
	p := e.plan
	processor := p.processor
	var current time.Duration
	switch {
	case e.compiling.IsZero():
		download := scale(e.work.Download, p.missing*p.network)
		current = remaining(download, ratio(e.downloaded, e.work.Modules), now.Sub(e.started)) +
			scale(e.work.Compile, p.stale*processor) + scale(e.work.Link, processor)
	case e.compiled.IsZero():
		usual, part, elapsed := scale(e.work.Compile, ratio(total, e.work.Packages)), ratio(done, total), now.Sub(e.compiling)
		current = remaining(scale(usual, processor), part, elapsed)
		if done > 0 && usual > 0 {
			// The estimate of this machine's speed improves as the work proceeds.
			processor = (1-part)*processor + part*within(float64(elapsed)/(part*float64(usual)))
		}
		current += scale(e.work.Link, processor)
	default:
		current = remaining(scale(e.work.Link, processor), 0, now.Sub(e.compiled))
	}
	return current + p.ahead(p.works[p.started:], processor)
}

// remaining returns how long the rest of a work takes of which a part is done. At first it uses the expected time, and
// then more and more the rate so far. For work that takes longer than expected, it returns a little more time.
func remaining(expected time.Duration, part float64, elapsed time.Duration) time.Duration {
	part = min(part, 1)
	all := float64(expected)
	if part > 0 {
		all = (1-part)*all + float64(elapsed) // part × (elapsed / part)
	}
	return max(time.Duration(all)-elapsed, elapsed/10)
}

func scale(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor)
}

// ratio returns the ratio of two counts, or 1 if whole is 0.
func ratio(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

func share(part, whole int) float64 { return min(ratio(part, whole), 1) }

// within limits a factor to the range that is possible for machines and networks.
func within(factor float64) float64 { return min(max(factor, 0.1), 50) }

// approximate describes a duration without false precision.
func approximate(d time.Duration) string {
	const step = 5 * time.Second
	switch {
	case d < step:
		return "5 s"
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", int(d.Round(step).Seconds()))
	default:
		return fmt.Sprintf("%d min", int(math.Round(d.Minutes())))
	}
}
