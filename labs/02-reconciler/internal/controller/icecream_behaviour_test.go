// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

// TODO(lab): 6. Not graded with the lab: tests of your own. `make tests-2`, in the root of the repository, runs them
// on wrong operators, and says how many they find out.
