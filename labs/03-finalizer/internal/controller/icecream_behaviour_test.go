// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

// TODO(lab): 9. Not graded with the lab: tests of your own. `make tests-3`, in the root of the repository, runs them
// on wrong operators, and says how many they find out.
