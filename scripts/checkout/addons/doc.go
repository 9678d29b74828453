// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package addons brings add-ons into a cluster for the lab command: it runs the program that is built from
// clusters/addons/install, in which the Helm SDK is. It builds neither that program nor the images of add-ons:
// checkout.EnsureAddons does.
package addons
