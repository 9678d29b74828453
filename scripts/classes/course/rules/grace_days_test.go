// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rules

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// trial is a course with one student, as numbers that a brute-force search can enumerate.
type trial struct {
	text     string
	budget   int
	limits   []int // grace days of each lab at most
	weights  []int64
	late     []lateRule
	last     []bool
	manual   []int64
	attempts [][]Attempt
	days     [][]int
}

type lateRule struct {
	points, percent int64
	cutoff          int
}

func randomTrial(random *rand.Rand) *trial {
	labs := 1 + random.IntN(4)
	drawn := &trial{budget: random.IntN(6)}
	var text, manual strings.Builder
	fmt.Fprintf(&text, "graceDays: %d\nlabs:\n", drawn.budget)
	for i := range labs {
		rule := lateRule{cutoff: random.IntN(6)}
		rule.percent = random.Int64N(4) * 15
		word := fmt.Sprintf("percent: %d", rule.percent)
		if random.IntN(2) == 0 {
			rule.percent, rule.points = 0, random.Int64N(4)*9
			word = fmt.Sprintf("points: %d", rule.points)
		}
		limit, weight, points, isLast := random.IntN(6), random.Int64N(4), random.Int64N(41)-20, random.IntN(2) == 0
		fmt.Fprintf(&text,
			"  %d: {deadline: 2026-07-01 12:00, weight: %d, graceDays: %d, attempts: %s, late: {%s, days: %d}}\n",
			i+1, weight, limit, map[bool]string{true: "last", false: "best"}[isLast], word, rule.cutoff)
		fmt.Fprintf(&manual, "%d: {points: %d}, ", i+1, points)
		var attempts []Attempt
		var days []int
		at, full := 0, []int{100, 100, 30, 70}[random.IntN(4)]
		for n := range random.IntN(4) {
			at += random.IntN(4)
			attempt := in(n+1, random.IntN(full+1), at)
			attempt.Max, attempt.Valid = full, random.IntN(8) > 0
			attempts, days = append(attempts, attempt), append(days, at)
		}
		drawn.limits, drawn.weights, drawn.late, drawn.last = append(drawn.limits, limit), append(drawn.weights, weight),
			append(drawn.late, rule), append(drawn.last, isLast)
		drawn.manual, drawn.attempts, drawn.days =
			append(drawn.manual, points), append(drawn.attempts, attempts), append(drawn.days, days)
	}
	drawn.text = text.String() + "students: {ada: {labs: {" + strings.TrimSuffix(manual.String(), ", ") + "}}}\n"
	return drawn
}

// lab returns the worth of a lab with exactly so many grace days, in percent. It follows the description on the page,
// not the code.
func (c *trial) lab(i, grace int) *big.Rat {
	var points *big.Rat
	full := 100
	for pass := range 2 { // accepted attempts first, and all if there are none
		for n, attempt := range c.attempts[i] {
			if !attempt.Valid {
				continue
			}
			full = attempt.Max
			days := max(0, c.days[i][n]-grace)
			left := big.NewRat(0, 1)
			if days <= c.late[i].cutoff {
				left.SetFrac64(
					int64(attempt.Points)*100-int64(days)*(c.late[i].points*100+c.late[i].percent*int64(attempt.Points)), 100,
				)
			} else if pass == 0 {
				continue
			}
			if left.Sign() < 0 {
				left.SetInt64(0)
			}
			if points == nil || c.last[i] || left.Cmp(points) > 0 {
				points = left
			}
		}
		if points != nil {
			break
		}
	}
	if points == nil {
		points = big.NewRat(0, 1)
	}
	points = new(big.Rat).Add(points, big.NewRat(c.manual[i], 1))
	if points.Sign() < 0 {
		points.SetInt64(0)
	}
	return points.Mul(points, big.NewRat(100, int64(full)))
}

// try tries all distributions of the grace days, and returns the best total and the fewest days that reach it.
func (c *trial) try(i, left int) (worth *big.Rat, used int) {
	if i == len(c.attempts) {
		return new(big.Rat), 0
	}
	for grace := range min(left, c.limits[i]) + 1 {
		rest, more := c.try(i+1, left-grace)
		sum := new(big.Rat).Mul(c.lab(i, grace), big.NewRat(c.weights[i], 1))
		sum.Add(sum, rest)
		if worth == nil || sum.Cmp(worth) > 0 || sum.Cmp(worth) == 0 && grace+more < used {
			worth, used = sum, grace+more
		}
	}
	return worth, used
}

func TestGraceDaysMaximizeTotal(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same ones each time
	helped := 0
	for range 3000 {
		c := randomTrial(random)
		labs, weights := map[string][]Attempt{}, int64(0)
		for i, attempts := range c.attempts {
			labs[fmt.Sprintf("%02d-lab", i+1)] = attempts
			weights += c.weights[i]
		}
		marks, total := parse(t, c.text).Marks("ada", labs)
		worth, days := c.try(0, c.budget)
		want := 0.0
		if weights > 0 {
			want, _ = worth.Quo(worth, big.NewRat(weights, 1)).Float64()
		}
		used := 0
		for i := range c.attempts {
			mark := marks[fmt.Sprintf("%02d-lab", i+1)]
			used += mark.GraceUsed
			if mark.GraceUsed > c.limits[i] || mark.GraceUsed > mark.Late {
				t.Fatalf("%s\n%v\nlab %d used %d grace days", c.text, c.attempts, i+1, mark.GraceUsed)
			}
			final, _ := c.lab(i, mark.GraceUsed).Float64()
			if got := mark.Final / float64(mark.Max) * 100; math.Abs(got-final) > 1e-9 {
				t.Fatalf("%s\n%v\nlab %d has %v %%, want %v", c.text, c.attempts, i+1, got, final)
			}
		}
		if math.Abs(total-want) > 1e-9 || used != days || used > c.budget {
			t.Fatalf("%s\n%v\nthe total is %v with %d grace days, want %v with %d", c.text, c.attempts, total, used, want, days)
		}
		if used > 0 {
			helped++
		}
	}
	if helped < 300 {
		t.Errorf("grace days made a difference in only %d trials", helped)
	}
}
