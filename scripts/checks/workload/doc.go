// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package workload is how checks see what an operator makes for an object of its kind: the Deployments and Services
// that are its children, their Pods, what a node port answers, and what the operator may do. It knows them only through
// the API server: a node port is asked through the API server's proxy to a node, which works on the embedded node and
// on kind alike. It also makes what an operator has to cope with: foreign objects, Pods as a kubelet describes them,
// and errors of the API server. It checks nothing.
package workload
