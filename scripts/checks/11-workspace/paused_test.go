// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"
)

func paused() e2etypes.Feature {
	return feature("a CloudInstance is paused", "and nothing happens in the cloud", func(v visit) {
		v.bootsAtOnce()
		spec := v.wanted("teak")
		spec["paused"] = true
		o := v.create("teak", spec)
		theirs := v.decoy(nil)
		one := v.instances(theirs)[0]
		imports := v.create("tamarind", map[string]any{"instanceID": one.ID, "paused": true})
		other := v.runs("tulip") // when it runs, the operator has seen teak
		v.Settle(v.ctx, v.t)
		if len(v.instances(o)) > 0 {
			v.fail("while teak is paused, nothing is launched for it", v.launchedInstances(o))
		}
		if tags := v.instances(theirs)[0].Tags; len(tags) > 0 {
			const untouched = "while tamarind is paused, the instance that it is to import stays as it is"
			v.fail(untouched, fmt.Sprintf("%s has the tags %v", one.ID, tags))
		}
		v.change(imports, `{"spec":{"paused":false}}`)
		const resumed = "when tamarind is not paused any more, it imports its instance"
		v.ready(resumed, longPatience, imports, metav1.ConditionTrue)
		v.until(resumed, longPatience, func() (string, bool) {
			tags := v.instances(theirs)[0].Tags
			return fmt.Sprintf("its tags are %v", tags), tags[ownerTag] == imports.uid
		})
		v.delete(imports)
		v.until("tamarind, which is not paused, disappears when it is deleted", longPatience, func() (string, bool) {
			_, exists := v.find(imports)
			return "it is still there", !exists
		})
		v.change(o, `{"spec":{"paused":false}}`)
		v.hasOne("when teak is not paused any more, its instance is launched", longPatience, o, 1)
		v.ready("when teak is not paused any more", longPatience, o, metav1.ConditionTrue)

		v.change(o, `{"spec":{"paused":true}}`)
		v.Settle(v.ctx, v.t)
		v.delete(o)
		v.delete(other)
		v.disappears("tulip, which is not paused, disappears when it is deleted", longPatience, other)
		v.Settle(v.ctx, v.t)
		const stays = "while teak is paused, it stays when it is deleted, and its instance runs"
		if _, exists := v.find(o); !exists || len(v.running(o)) != 1 {
			v.fail(stays, fmt.Sprintf("it is there: %t; %s", exists, v.launchedInstances(o)))
		}
		v.change(o, `{"spec":{"paused":false}}`)
		v.disappears("when teak, which was deleted, is not paused any more, its instance ends, and it disappears",
			longPatience, o)
	})
}
