// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package marking

import (
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/classes/course/intake"
)

// FindModule finds the module that belongs to a lab in a folder that a student handed in.
func FindModule(repo *checkout.Checkout, lab *manifest.Lab, dir string) (string, error) {
	wanted, all := intakeLabs(repo, lab.Name)
	return intake.Find(dir, wanted, all, ownsByGroup(repo))
}

// intakeLabs returns the labs of a checkout in the form of package intake, and the lab with a name.
func intakeLabs(repo *checkout.Checkout, name string) (named intake.Lab, all []intake.Lab) {
	for _, lab := range repo.Labs.Labs {
		all = append(all, intake.Lab{Name: lab.Name, Number: lab.Number, Title: lab.Title})
		if lab.Name == name {
			named = all[len(all)-1]
		}
	}
	return named, all
}

// ownsByGroup returns a function that reports whether a module has one of a lab's API groups. It is for modules whose
// names do not identify the lab.
func ownsByGroup(repo *checkout.Checkout) func(intake.Lab, string) bool {
	return func(lab intake.Lab, dir string) bool {
		listed, err := repo.Labs.Lab(lab.Name)
		return err == nil && intake.HasGroup(dir, listed.Groups...)
	}
}
