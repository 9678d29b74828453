// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package skeleton generates a lab from its solution by removing the tasks, which comments mark in the solution. It
// does not grade the lab, and it never overwrites a student's changes to it.
//
// A task is a region of a file. In YAML, Makefiles and similar files, markers begin with # instead of //:
//
//	//lab:begin count-toppings
//	icecream.Status.ToppingsCount = len(icecream.Spec.Topping)
//	//lab:else
//	// // TODO(lab): count the toppings.
//	//lab:end
//
// The lab has the lines between else and end, without their comment signs, or nothing if there is no else. A page that
// shows the solution has the lines between begin and else.
//
// Two more markers concern only solutions. A file that a lab inherits from the lab it starts from must be the same in
// both, unless the lab has a task in it, or a marker gives the reason:
//
//	//lab:differs the manager also starts the reconciler
//
// A lab that starts from another one has all its files, except those with a marker that gives the reason why they
// belong to the earlier lab alone:
//
//	#lab:alone the zombie belongs to this lab's second half
//
// A lab that begins nearly empty has a solution with a file skeleton.txt, which names the files and folders that the
// lab has.
package skeleton
