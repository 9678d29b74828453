// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/services/cloud"
)

// boundary is a write of the operator in the life of a CloudInstance, and the side of it at which the operator is
// killed.
type boundary struct {
	kind   faults.Kind
	number int
	what   string
}

func (b boundary) String() string {
	side := "right before"
	if b.kind == faults.KillAfter {
		side = "right after"
	}
	return fmt.Sprintf("%s write %d (%s)", side, b.number, b.what)
}

// everyBoundary records the writes of one life, to Kubernetes and to the cloud. Then it kills the operator at each of
// their boundaries in turn, each in another life: before the first write, and after each one. Between two writes there
// is one boundary, because nothing outside the operator can distinguish whether it was killed right after the first or
// right before the second. (lab torture tries both.) A boundary is identified by its number, and a conflict with a
// status that the operator has not seen yet counts as well. A life with such a conflict is repeated.
func everyBoundary() e2etypes.Feature {
	return feature("the operator is killed at every write boundary", "in turn", func(v visit) {
		v.bootsAtOnce()
		v.Settle(v.ctx, v.t)
		v.arm()
		v.began = time.Now()
		lives := []order{v.createAndDelete("zelkova-0", "on a good day")}
		writes, refused := v.operatorWrites()
		for again := 1; refused && again < mostLives; again++ {
			v.arm()
			v.began = time.Now()
			lives = append(lives, v.createAndDelete(fmt.Sprintf("zelkova-0-%d", again), "on a good day"))
			writes, refused = v.operatorWrites()
		}
		boundaries := []boundary{{faults.KillBefore, 1, writes[0]}}
		for i, what := range writes {
			boundaries = append(boundaries, boundary{faults.KillAfter, i + 1, what})
		}
		for i, at := range boundaries {
			for again := range mostLives {
				v.arm(faults.Fault{Kind: at.kind, Class: faults.Write, At: at.number}) // waits for the kill before
				v.began = time.Now()
				lives = append(lives, v.createAndDelete(fmt.Sprintf("zelkova-%d-%d", i+1, again), "killed "+at.String()))
				if lived, _ := v.operatorWrites(); len(lived) >= at.number && slices.Equal(lived[:at.number], writes[:at.number]) {
					break
				}
			}
		}
		v.disarm()
		v.Settle(v.ctx, v.t)
		cents := 0
		for _, o := range lives {
			if running := v.running(o); len(running) > 0 || len(v.instances(o)) > 1 {
				v.fail("for each of the objects one instance was launched, and none runs any more", v.launchedInstances(o))
			}
			cents += cloud.Prices["small"] * len(v.instances(o))
		}
		v.Measure("write boundaries at which the operator was killed", float64(len(boundaries)), "boundaries")
		v.Measure("bill of all lives", float64(cents), "cents")
	})
}

// mostLives is how often a boundary is tried at most, for an operator whose writes differ between lives.
const mostLives = 3

// operatorWrites returns the operator's writes since the beginning of the check's last life, in order, and whether one
// of them was refused.
func (v visit) operatorWrites() (writes []string, refused bool) {
	v.t.Helper()
	for _, e := range v.log() {
		if e.Number > 0 && e.Class() == faults.Write {
			writes = append(writes, describe(e))
			refused = refused || e.Code >= http.StatusBadRequest
		}
	}
	return writes, refused
}

// describe describes a write without the parts that differ between lives.
func describe(e faults.Entry) string {
	if e.Service == cloud.Service {
		if e.Verb == "post" {
			return "launch in the cloud"
		}
		return e.Verb + " in the cloud"
	}
	return e.Verb + " " + e.Resource
}

// createAndDelete creates a CloudInstance, and deletes it until it is gone. Whatever happens to the operator, there is
// one instance, and then none.
func (v visit) createAndDelete(name, when string) order {
	v.t.Helper()
	o := v.createWanted(name)
	launched := "one instance is launched for an object, and it runs, when the operator is " + when
	if when == "on a good day" {
		launched = "one instance is launched for an object, and it runs"
	}
	v.ready(launched, longPatience, o, metav1.ConditionTrue)
	one := v.hasOne(launched, longPatience, o, 1)
	v.records(launched+", and its Workspace has the instance's ID and no nonce", longPatience, o, one)
	v.delete(o)
	gone := "when the object is deleted, its instance ends, and it disappears, when the operator is " + when
	v.disappears(gone, longPatience, o)
	v.atMost(launched, o, 1)
	return o
}

// scenario is the life of one object, and the short life of another, which is deleted at once. Whatever fails, each has
// at most one instance, and none at the end.
func scenario(v visit) {
	v.set(func(s *cloud.Settings) { s.Lag = cloud.Defaults().Lag })
	long := v.createWanted("zebrano")
	v.hasOne("zebrano gets one instance", longPatience, long, 1)
	v.ready("the instance of zebrano runs", longPatience, long, metav1.ConditionTrue)
	short := v.createWanted("ziricote")
	v.delete(short)
	v.delete(long)
	for _, o := range []order{long, short} {
		v.disappears(fmt.Sprintf("when %s is deleted, its instance ends, and it disappears", o.name), longPatience, o)
	}
	v.Settle(v.ctx, v.t)
	for _, o := range []order{long, short} {
		const expected = "for each object at most one instance was launched, and none runs when it has gone"
		v.atMost(expected, o, 1)
		if slices.ContainsFunc(v.instances(o), func(i cloud.Instance) bool { return i.State != cloud.Terminated }) {
			v.fail(expected, v.launchedInstances(o))
		}
	}
}
