// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package deployed deploys a submission for the checks of a lab whose stage is deployed: it applies the objects of the
// submission's config/default one by one, at the times that the checks choose, and reads Events and logs to see how the
// Pods behave. It gives no verdict, and knows no lab.
package deployed
