// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// round is which candidates of a lab are graded: all of them if it is empty.
type round string

const (
	rightAndSkeleton round = "all but mutants"
	mutants          round = "mutants"
)

// Labs certifies the graders of several labs. End is when that is to be done, the zero time: when it is. If there is an end, all that is
// right is graded in each lab, and the skeleton; then mutants, in the order that the seed draws: each lab gets the part of the time that
// its mutants are of all. Another seed draws others, so that all get their turn. It ends with the first lab that is not certified.
func Labs(ctx context.Context, labs []Options, end time.Time, seed uint64) error {
	if end.IsZero() {
		return each(ctx, labs, func(*Options) {})
	}
	if err := each(ctx, labs, func(o *Options) { o.round = rightAndSkeleton }); err != nil {
		return err
	}
	left := 0
	for i := range labs {
		left += labs[i].weight()
	}
	return each(ctx, labs, func(o *Options) {
		o.round, o.Seed = mutants, seed
		own := o.weight()
		o.Until = time.Now().Add(share(time.Until(end), own, left))
		left -= own
	})
}

// each certifies one lab after the other.
func each(ctx context.Context, labs []Options, prepare func(*Options)) error {
	for _, options := range labs {
		prepare(&options)
		if err := Lab(ctx, options); err != nil {
			return err
		}
	}
	return nil
}

// share is the part of the time that is left for a lab that has so many of all mutants that are left.
func share(left time.Duration, own, all int) time.Duration {
	if all == 0 || left < 0 {
		return 0
	}
	return time.Duration(float64(left) * float64(own) / float64(all))
}

// weight is how much there is to grade in the round of mutants. One whose cluster has a node takes about as long as two others.
func (o *Options) weight() int {
	all, err := o.candidates()
	if err != nil {
		return 0 // Lab says what is wrong
	}
	n := len(slices.DeleteFunc(all, func(c candidate) bool { return c.misconception == "" }))
	if o.withNode() {
		n *= 2
	}
	return n
}

// drawn are the candidates of the round, in its order.
func (o *Options) drawn(all []candidate) []candidate {
	all = slices.DeleteFunc(all, func(c candidate) bool {
		isMutant := c.misconception != ""
		return o.round == mutants && !isMutant || o.round == rightAndSkeleton && isMutant
	})
	if o.Seed != 0 {
		rand.New(rand.NewPCG(o.Seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	return all
}

// isLate reports whether a candidate may not begin any more.
func (o *Options) isLate(c candidate) bool {
	return c.misconception != "" && !o.Until.IsZero() && time.Now().After(o.Until)
}
