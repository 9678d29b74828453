// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package finalizer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/zombie"
	"lva.io/operators/scripts/grading/audit"
)

// These are the student's files about the zombie.
const (
	answersFile = "zombie/answers.yaml"
	rescueFile  = "zombie/rescue.sh"
)

// rescuer is the account with which the grader runs the student's script.
const rescuer = "system:serviceaccount:operator-system:rescuer"

func zombieExplained() types.Feature {
	return features.New("the zombie is explained").
		Assess("in the student's words", check.Assess(assess(func(v visit) {
			const expected = answersFile + " says what is wrong with the scene that `make zombie` plants in the playground"
			content, err := v.Submission.File(v.ctx, answersFile)
			if errors.Is(err, fs.ErrNotExist) {
				v.Fail(v.t, expected, "there is no such file in the submission", "none")
			}
			v.OK(v.t, "reading "+answersFile, err)
			answers, err := zombie.Read(content)
			if err != nil {
				v.Fail(v.t, expected, err.Error(), "none")
			}
			if mistakes := zombie.Playground.Mistakes(answers); len(mistakes) > 0 {
				v.Fail(v.t, expected, strings.Join(mistakes, "; "), mistakes...)
			}
		}))).Feature()
}

// unseenScene is a scene that students have not seen: another zombie, which two more finalizers block as well.
var unseenScene = zombie.Scene{
	Zombie: "walnut-wonder", Slow: "vanilla-sky", Living: "winter-dream",
	Gone: zombie.Controller{
		Name: "cellar-controller", Finalizer: "cellar.example.org/cork", Namespace: "cellar-system", Lease: "cellar",
	},
	Busy: zombie.Controller{
		Name: "window-controller", Finalizer: "window.example.org/light", Namespace: "window-system", Lease: "window",
	},
	ZombieBox: "box-0042", LivingBox: "box-0007",
	Before: []string{foreign}, After: []string{"museum.example.net/frame"},
}

// singleFinalizer returns the same scene with a zombie that no other finalizer blocks.
func singleFinalizer() zombie.Scene {
	scene := unseenScene
	scene.Zombie, scene.ZombieBox, scene.Before, scene.After = "yoghurt-yeti", "box-0043", nil, nil
	return scene
}

func zombieFreed() types.Feature {
	return features.New("the zombie is freed").
		Assess("from exactly one finalizer", check.Assess(assess(func(v visit) {
			// From now on, only the script makes changes.
			v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
			v.OK(v.t, "planting the scene", unseenScene.Plant(v.ctx, v.Config))
			v.OK(v.t, "planting the scene", singleFinalizer().Plant(v.ctx, v.Config))
			dead := unseenScene.Gone.Finalizer

			v.rescue(unseenScene.Living, dead,
				"an icecream that is not being deleted keeps its finalizers, and the script ends with an error",
				func(exit int, left []string) bool { return exit != 0 && slices.Equal(left, []string{dead}) })
			v.rescue(unseenScene.Zombie, dead[:len(dead)-1], "the zombie has no such finalizer, and keeps those that it has",
				func(_ int, left []string) bool {
					return slices.Equal(left, slices.Concat(unseenScene.Before, []string{dead}, unseenScene.After))
				})
			v.rescue(unseenScene.Zombie, dead, "the zombie loses the finalizer, and keeps the other two",
				func(exit int, left []string) bool {
					return exit == 0 && slices.Equal(left, slices.Concat(unseenScene.Before, unseenScene.After))
				})
			v.rescue(singleFinalizer().Zombie, dead, "a zombie that nothing else holds is gone",
				func(exit int, left []string) bool { return exit == 0 && left == nil })
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			return errors.Join(singleFinalizer().Remove(ctx, c.Config), unseenScene.Remove(ctx, c.Config), c.Operator.Start(ctx))
		})).Feature()
}

// rescue runs the student's script. It then checks the remaining finalizers (nil: the icecream is gone), and whether
// the script wrote anything else.
func (v visit) rescue(name, finalizer, expected string, good func(exit int, left []string) bool) {
	v.t.Helper()
	expected = fmt.Sprintf("%s %s %s: %s", rescueFile, name, finalizer, expected)
	began := v.Audit.Now()
	output, exit, err := v.Submission.Run(v.ctx, rescueFile, name, finalizer)
	if errors.Is(err, fs.ErrNotExist) {
		v.Fail(v.t, expected, "there is no such file in the submission", "none")
	}
	scriptErr, is := errors.AsType[*check.ScriptError](err)
	if !is {
		v.OK(v.t, "running "+rescueFile, err)
	}
	writes := v.Audit.Since(began, v.Audit.By(rescuer).And(audit.Writes, func(e audit.Event) bool { return e.Code < 300 }))
	var evidence []string
	for _, e := range writes {
		evidence = append(evidence, e.String())
	}
	for line := range strings.Lines(strings.TrimSpace(output)) {
		evidence = append(evidence, "it printed: "+strings.TrimSpace(line))
	}
	if scriptErr != nil {
		v.Fail(v.t, expected, scriptErr.Observed, evidence...)
	}
	evidence = append(evidence, fmt.Sprintf("its exit code was %d", exit))

	left, observed := []string(nil), name+" is gone"
	object, err := v.Client.Get(v.ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		v.OK(v.t, "reading an icecream", err)
		left = object.GetFinalizers()
		observed = finalizersOf(left)
	}
	if !good(exit, left) {
		v.Fail(v.t, expected, fmt.Sprintf("%s, and the exit code is %d", observed, exit), evidence...)
	}
	for _, e := range writes {
		if e.Name != name || e.Verb == "delete" {
			v.Fail(v.t, expected+"; nothing else is touched", fmt.Sprintf("it also did this: %s", e), evidence...)
		}
	}
}
