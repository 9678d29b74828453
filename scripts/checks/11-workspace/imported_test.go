// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"
)

func imported() e2etypes.Feature {
	return feature("an instance is imported", "unless it belongs to another", func(v visit) {
		theirs := v.decoy(nil)
		one := v.instances(theirs)[0]
		o := v.create("spruce", map[string]any{"instanceID": one.ID})
		const expected = "spruce imports the instance that spec.instanceID names: nothing is launched, " +
			"and the instance gets the tag " + ownerTag
		v.ready(expected, patience, o, metav1.ConditionTrue)
		v.until(expected, patience, func() (string, bool) {
			now := v.instances(theirs)[0]
			return fmt.Sprintf("its tags are %v", now.Tags), now.Tags[ownerTag] == o.uid
		})
		v.statusShows(expected, patience, o, one)
		everything, err := v.cloud.List(v.ctx, ownerTag, o.uid)
		v.OK(v.t, "listing the instances", err)
		if len(everything) != 1 {
			v.fail(expected, fmt.Sprintf("there are %d instances with the tag of spruce", len(everything)))
		}

		foreign := v.decoy(map[string]string{ownerTag: "another-owner"})
		for name, id := range map[string]string{
			"sumac":     v.instances(foreign)[0].ID,
			"sycamore":  one.ID,
			"sapodilla": "i-there-is-none",
		} {
			wrong := v.create(name, map[string]any{"instanceID": id})
			what := name + " can't import an instance that belongs to another"
			if name == "sapodilla" {
				what = name + " can't import an instance that there is not"
			}
			v.ready(what, longPatience, wrong, metav1.ConditionFalse)
			v.delete(wrong)
			v.until(what+", and disappears when it is deleted", longPatience, func() (string, bool) {
				_, exists := v.find(wrong)
				return name + " is still there", !exists
			})
		}
		const unharmed = "an instance that belongs to another is not ended"
		if len(v.running(foreign)) != 1 || len(v.running(theirs)) != 1 {
			v.fail(unharmed, "it was ended when an object was deleted that could not import it")
		}

		turned := v.create("sassafras", map[string]any{"instanceID": v.instances(foreign)[0].ID})
		v.ready("sassafras can't import an instance that belongs to another", longPatience, turned, metav1.ConditionFalse)
		// The types of the lab do not allow this change. An operator whose types do must not treat an instance that it could
		// not import as its own.
		const asLaunch = `{"spec":{"instanceID":null,"type":"small","image":"sassafras"}}`
		_, err = v.objects.Patch(v.ctx, turned.name, types.MergePatchType, []byte(asLaunch), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) {
			v.OK(v.t, "changing sassafras from an import to a launch", err)
		}
		v.delete(turned)
		v.until("sassafras disappears after it is deleted", longPatience, func() (string, bool) {
			_, exists := v.find(turned)
			return "it is still there", !exists
		})
		if len(v.running(foreign)) != 1 {
			v.fail(unharmed, "it was ended when sassafras was deleted, which could not import it, "+
				"and whose spec then had a type and an image instead of its ID")
		}
		v.delete(o)
		v.until("when spruce is deleted, the instance that it imported ends, and spruce disappears", longPatience,
			func() (string, bool) {
				_, exists := v.find(o)
				running := v.running(theirs)
				if !exists && len(running) > 0 {
					v.fail("when spruce is deleted, the instance that it imported ends before it disappears",
						"spruce is gone, and "+one.ID+" still runs")
				}
				return "it is still there", !exists
			})
		v.namesForeign()
	})
}
