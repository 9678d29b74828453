// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package addons installs add-ons into a cluster by running the program that is built from clusters/addons/install.
// Only that program contains the Helm SDK, so that the lab command does not. The package builds neither that program
// nor the images of add-ons: checkout.EnsureAddons does.
package addons
