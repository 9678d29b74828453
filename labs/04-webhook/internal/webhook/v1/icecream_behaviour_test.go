// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

// TODO(lab): 7. Not graded with the lab: tests of your own. `make tests-4`, in the root of the repository, runs them
// on wrong webhooks, and says how many they find out.
